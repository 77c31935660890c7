"""Topics, groups and messages as administrators see them; housekeeping; admin HTTP."""

from cluster.broker.admin.feature import Admin

__all__ = ["Admin"]
