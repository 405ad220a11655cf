agent s1 'round the total' "sed -i 's/return sum.*/return round(sum(i.price for i in items) * TAX, 2)/' cart.py"
