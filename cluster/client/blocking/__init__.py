"""The client for code without an event loop; see README.md."""

from __future__ import annotations

from cluster.client.blocking.admin import Admin, GroupAdmin
from cluster.client.blocking.clients import Client, Consumer, connect
from cluster.client.blocking.producers import (
    Producer,
    Requester,
    Transaction,
    TransactionProducer,
)

__all__ = [
    "Admin",
    "Client",
    "Consumer",
    "GroupAdmin",
    "Producer",
    "Requester",
    "Transaction",
    "TransactionProducer",
    "connect",
]
