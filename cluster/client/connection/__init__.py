"""Connections of a client; see README.md."""
