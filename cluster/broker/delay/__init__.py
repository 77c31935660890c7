"""Messages that wait: sent into a topic of the system's own, delivered by the leader when due."""

from cluster.broker.delay.feature import Delay

__all__ = ["Delay"]
