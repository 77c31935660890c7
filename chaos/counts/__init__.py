"""Counts that add up over many runs, for as long as core and storage stay the same."""
