"""The same workload against pysyncobj, another replicated log with known faults that must be
found.
"""
