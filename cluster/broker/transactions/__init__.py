"""Transactions: halves on their way in, outcomes into the log, producers asked for them."""

from cluster.broker.transactions.feature import Transactions

__all__ = ["Transactions"]
