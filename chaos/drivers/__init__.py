"""Faults on real processes. See README.md."""
