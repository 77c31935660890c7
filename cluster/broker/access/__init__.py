"""Accounts in the log, and the audit log of administrators' actions."""

from cluster.broker.access.feature import AccessControl

__all__ = ["AccessControl"]
