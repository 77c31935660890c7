"""Topics, groups and messages as administrators see them; housekeeping; admin HTTP."""

from cluster.broker.manage.feature import Admin

__all__ = ["Admin"]
