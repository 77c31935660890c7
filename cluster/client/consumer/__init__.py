"""Receives messages; see README.md."""
