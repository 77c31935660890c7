"""Halves of transactions: who waits for an outcome, and when a producer is asked for one."""
