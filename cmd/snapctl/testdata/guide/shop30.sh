cat >cart.py <<'END'
def total(items):
    return sum(i.price for i in items)


def show(items):
    for i in items:
        print(i.name)
END
printf '# Shop\n' >README
echo 'TAX = 1.19' >tax.py
agent s1 'sort the list' "sed -i 's/for i in items:/for i in sorted(items):/' cart.py"
agent s1 'tidy up' "sed -i 's/print/log/' cart.py; rm tax.py; echo TODO >notes.md"
sed -i "1s/^/'''The cart.'''\n\n/" cart.py
