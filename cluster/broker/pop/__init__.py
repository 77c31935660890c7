"""Pop consumption, served: taking, acknowledging, waiting, giving again."""

from cluster.broker.pop.feature import Pop

__all__ = ["Pop"]
