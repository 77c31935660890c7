"""Negative controls: runs that must turn red, or the suite sees nothing."""
