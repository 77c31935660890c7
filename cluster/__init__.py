"""The service and its clients. Importing this loads nothing; a name is loaded when it is used.

async with cluster.connect("127.0.0.1:9876") as mq:
    async with mq.producer() as producer:
        await producer.send("orders", b"...")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.client import (
        Account,
        Admin,
        Client,
        ClientConfig,
        Consumer,
        ConsumerConfig,
        Decision,
        Durability,
        Producer,
        ProducerConfig,
        Receipt,
        ReceivedMessage,
        Requester,
        Tls,
        Transaction,
        TransactionProducer,
        connect,
    )
    from cluster.errors import ClusterError, NotDone, Outcome, OutcomeUnknown

__all__ = [
    "Account",
    "Admin",
    "Client",
    "ClientConfig",
    "ClusterError",
    "Consumer",
    "ConsumerConfig",
    "Decision",
    "Durability",
    "NotDone",
    "Outcome",
    "OutcomeUnknown",
    "Producer",
    "ProducerConfig",
    "Receipt",
    "ReceivedMessage",
    "Requester",
    "Tls",
    "Transaction",
    "TransactionProducer",
    "connect",
]

_ERRORS = frozenset({"ClusterError", "NotDone", "Outcome", "OutcomeUnknown"})


def __getattr__(name: str) -> object:
    """Load a public name's module at its first use, so that `dledger --help` stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")
    import importlib

    module = importlib.import_module("cluster.errors" if name in _ERRORS else "cluster.client")
    value = globals()[name] = getattr(module, name)
    return value
