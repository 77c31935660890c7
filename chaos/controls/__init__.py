"""Negative controls: runs with a known fault that the suite must report, which proves that it
can.
"""
