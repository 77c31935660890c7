"""Mutants that a program draws: small changes of lines, made without regard to the tests.

operators.py   which changes a source file offers
draw.py        two hundred of them, by a fixed seed, each on a line of its own
killers.py     which tests look at a module
child.py       one of them in a process of its own
run.py         all of them, one line of a file each, resumable
command.py     `dledger mutants-drawn`
"""
