"""The asyncio client; see README.md. Heavy parts are loaded when they are first used."""

from __future__ import annotations

from cluster.client.admin import Admin, ClusterStatus, TopicDescription, TopicSettings
from cluster.client.client import Client
from cluster.client.config import (
    ClientConfig,
    ClientConfigError,
    ConsumerConfig,
    ProducerConfig,
)
from cluster.client.consumer import Consumer
from cluster.client.discovery import connect
from cluster.client.group_admin import GroupDescription, QueueLag
from cluster.client.message import Receipt, ReceivedMessage
from cluster.client.places import FIRST, LAST
from cluster.client.producer import Producer
from cluster.client.requester import Requester
from cluster.client.security import Account, Tls
from cluster.client.transaction import Decision, Transaction
from cluster.client.transaction_producer import TransactionProducer
from cluster.protocol.durability import Durability

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
