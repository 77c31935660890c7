"""The service and its clients. A name is loaded when it is first used.

async with cluster.connect("127.0.0.1:9876") as mq:
    async with mq.producer() as producer:
        await producer.send("orders", b"...")

Every error that a method of the client raises can be imported from here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.client import (
        Account,
        Admin,
        Client,
        ClientConfig,
        ClientConfigError,
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
    from cluster.errors import (
        ClientClosed,
        ClusterError,
        ConnectionLost,
        ConsumerOffline,
        FlowControlled,
        GroupNotFound,
        IllegalOperation,
        InvalidRequest,
        LeaderLostWhileWaiting,
        LocalProtocolError,
        MessageTooLarge,
        NotConnected,
        NotDone,
        NotFound,
        NotLeader,
        NotTrusted,
        NumberUsed,
        Outcome,
        OutcomeUnknown,
        PlannedMove,
        ProducerForgotten,
        ProtocolError,
        QueueFull,
        RemoteProtocolError,
        ReplyTimeout,
        RequestNotSupported,
        SealStale,
        SendTimeout,
        SequenceGap,
        ServerError,
        ServiceNotAvailable,
        SubscriptionInvalid,
        SubscriptionMissing,
        SubscriptionOutdated,
        TopicExists,
        TopicNotFound,
        Unauthorized,
        UnknownResponseCode,
    )
    from cluster.extras import MissingExtra

__all__ = [
    "Account",
    "Admin",
    "Client",
    "ClientClosed",
    "ClientConfig",
    "ClientConfigError",
    "ClusterError",
    "ConnectionLost",
    "Consumer",
    "ConsumerConfig",
    "ConsumerOffline",
    "Decision",
    "Durability",
    "FlowControlled",
    "GroupNotFound",
    "IllegalOperation",
    "InvalidRequest",
    "LeaderLostWhileWaiting",
    "LocalProtocolError",
    "MessageTooLarge",
    "MissingExtra",
    "NotConnected",
    "NotDone",
    "NotFound",
    "NotLeader",
    "NotTrusted",
    "NumberUsed",
    "Outcome",
    "OutcomeUnknown",
    "PlannedMove",
    "Producer",
    "ProducerConfig",
    "ProducerForgotten",
    "ProtocolError",
    "QueueFull",
    "Receipt",
    "ReceivedMessage",
    "RemoteProtocolError",
    "ReplyTimeout",
    "RequestNotSupported",
    "Requester",
    "SealStale",
    "SendTimeout",
    "SequenceGap",
    "ServerError",
    "ServiceNotAvailable",
    "SubscriptionInvalid",
    "SubscriptionMissing",
    "SubscriptionOutdated",
    "Tls",
    "TopicExists",
    "TopicNotFound",
    "Transaction",
    "TransactionProducer",
    "Unauthorized",
    "UnknownResponseCode",
    "connect",
]

_CLIENT = frozenset(
    {
        "Account",
        "Admin",
        "Client",
        "ClientConfig",
        "ClientConfigError",
        "Consumer",
        "ConsumerConfig",
        "Decision",
        "Durability",
        "Producer",
        "ProducerConfig",
        "Receipt",
        "ReceivedMessage",
        "Requester",
        "Tls",
        "Transaction",
        "TransactionProducer",
        "connect",
    }
)
_OTHERS = {"MissingExtra": "cluster.extras"}


def __getattr__(name: str) -> object:
    """Load a public name's module at its first use, so that `dledger --help` stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")
    import importlib

    where = "cluster.client" if name in _CLIENT else _OTHERS.get(name, "cluster.errors")
    try:
        module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        from cluster.extras import missing_extra

        raise missing_extra(error) from None
    value = globals()[name] = getattr(module, name)
    return value
