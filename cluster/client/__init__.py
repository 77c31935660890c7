"""The asyncio client; see README.md. Heavy parts are loaded when they are first used."""

from __future__ import annotations

from cluster.extras import missing_extra as _missing_extra

try:
    from cluster.client.admin.admin import Admin, ClusterStatus
    from cluster.client.admin.group_admin import GroupDescription, QueueLag
    from cluster.client.admin.topics import TopicDescription, TopicSettings
    from cluster.client.client import Client
    from cluster.client.config import (
        Account,
        ClientConfig,
        ClientConfigError,
        ConsumerConfig,
        ProducerConfig,
        Tls,
    )
    from cluster.client.consumer.consumer import Consumer
    from cluster.client.discovery import connect
    from cluster.client.message import Receipt, ReceivedMessage
    from cluster.client.producer.producer import Producer
    from cluster.client.producer.requester import Requester
    from cluster.client.producer.transaction import Decision, Transaction
    from cluster.client.producer.transaction_producer import TransactionProducer
    from cluster.client.routing.offset_lookup import FIRST, LAST
    from cluster.protocol.durability import Durability
except ModuleNotFoundError as error:
    raise _missing_extra(error) from None

__all__ = [
    "FIRST",
    "LAST",
    "Account",
    "Admin",
    "Client",
    "ClientConfig",
    "ClientConfigError",
    "ClusterStatus",
    "Consumer",
    "ConsumerConfig",
    "Decision",
    "Durability",
    "GroupDescription",
    "Producer",
    "ProducerConfig",
    "QueueLag",
    "Receipt",
    "ReceivedMessage",
    "Requester",
    "Tls",
    "TopicDescription",
    "TopicSettings",
    "Transaction",
    "TransactionProducer",
    "connect",
]
