"""Transactions: halves on their way in, outcomes into the log, producers asked for them."""
