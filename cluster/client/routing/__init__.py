"""Finds brokers and sends requests to them; see README.md."""
