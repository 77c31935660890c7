"""Wrong twins of rules, by what they are about; see `chaos/mutants/twin.py`."""
