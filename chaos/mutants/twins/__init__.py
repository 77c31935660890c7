"""Wrong twins of rules, by subject; see `chaos/mutants/twin.py`."""
