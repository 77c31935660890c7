"""The clients that are connected: news for them, and questions to them."""

from cluster.broker.clients.feature import Clients

__all__ = ["Clients"]
