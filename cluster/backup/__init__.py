"""Backups of a log that is in use, and clusters made of them. See README.md."""
