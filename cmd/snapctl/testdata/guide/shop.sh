cat >cart.py <<'END'
def total(items):
    return sum(i.price for i in items)


def show(items):
    for i in items:
        print(i.name)
END
printf '# Shop\n\nHow to run it: make\n' >README
agent s1 'add tax to the total' "sed -i 's/ in items)$/ in items) * TAX/' cart.py; echo 'TAX = 1.19' >tax.py"
agent s1 'sort the list' "sed -i 's/for i in items:/for i in sorted(items):/' cart.py; echo '- sorted' >>README"
agent s1 'print the total, too' "echo '    print(total(items))' >>cart.py"
