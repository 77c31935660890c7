"""Send requests → records → one proposal a turn → answers."""

from cluster.broker.produce.feature import Produce

__all__ = ["Produce"]
