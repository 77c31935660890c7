"""The asyncio client; see README.md. Heavy parts are loaded when they are first used."""

from __future__ import annotations

from cluster.client.admin import Admin, ClusterStatus, TopicDescription
from cluster.client.client import Client
from cluster.client.config import (
    ClientConfig,
    ClientConfigError,
    ConsumerConfig,
    ProducerConfig,
)
from cluster.client.consumer import Consumer
from cluster.client.discovery import connect
from cluster.client.message import Receipt, ReceivedMessage
from cluster.client.producer import Producer

__all__ = [
    "Admin",
    "Client",
    "ClientConfig",
    "ClientConfigError",
    "ClusterStatus",
    "Consumer",
    "ConsumerConfig",
    "Producer",
    "ProducerConfig",
    "Receipt",
    "ReceivedMessage",
    "TopicDescription",
    "connect",
]
