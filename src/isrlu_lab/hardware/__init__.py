"""Hardware units for ISRLU, ISRU and 1/sqrt(x) in Amaranth HDL, with those that they are compared with.

`formats` and `activation_curves` are data. One file per unit holds its logic and, beside it, its NumPy model. `units`
names all of them, `synthesis` counts gates and places them on an ECP5, `export` writes files. The tests simulate them.
"""
