"""Pulls, long polls, offsets and the clients of groups."""

from cluster.broker.consume.feature import Consume

__all__ = ["Consume"]
