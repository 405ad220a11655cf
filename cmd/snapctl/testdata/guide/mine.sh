sed -i "1s/^/'''The cart.'''\n\n/" cart.py
