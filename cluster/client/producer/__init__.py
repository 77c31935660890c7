"""Sends messages; see README.md."""
