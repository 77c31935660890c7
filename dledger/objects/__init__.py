"""Replicated objects that are ready to use, each in one file that may be copied. See README.md."""
