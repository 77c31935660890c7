"""Fills the logs of a running cluster through its product: one producer, batching."""

from __future__ import annotations

import asyncio
import os

import cluster as dledger_cluster
from cluster.client.config import ProducerConfig
from cluster.local.launcher import LocalCluster

RECORD_OVERHEAD = 250  # of our records beside the body, about; only decides when to stop filling
# Together one producer's window: it is never empty while one part waits for its last receipt.
FILLERS, FILL_CHUNK = 4, 256


async def fill(cluster: LocalCluster, topic: str, size_mib: int, body_size: int) -> int:
    """Send until every log has about the wanted size; returns the number of messages."""
    count = (size_mib << 20) // (body_size + RECORD_OVERHEAD)
    body = os.urandom(body_size)
    config = ProducerConfig(batching=True)
    async with (
        dledger_cluster.connect(cluster.nameserver) as client,
        client.producer(config=config) as producer,
    ):
        await producer.open_topic(topic)

        async def fill_part() -> None:
            for _ in range(count // FILLERS // FILL_CHUNK):
                await asyncio.gather(*(producer.send(topic, body) for _ in range(FILL_CHUNK)))

        await asyncio.gather(*(fill_part() for _ in range(FILLERS)))
    return count
