"""Accounts of the log, looked at and changed: by our requests, and by RocketMQ 5's (README.md)."""
