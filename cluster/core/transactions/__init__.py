"""Halves of transactions that wait for an outcome, and when their producers are asked for it."""
