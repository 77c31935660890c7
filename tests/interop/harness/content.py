"""What the cluster holds, read with our own client: what foreign programs say is compared with it.

A message's `label` property names it; our programs set it on everything they send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import cluster
from cluster.client import ClientConfig, ReceivedMessage


def create_topics(nameserver: str, topics: Iterable[str], queues: int = 4) -> None:
    """Create topics on every broker name."""

    async def create() -> None:
        async with cluster.connect(nameserver) as client:
            for topic in topics:
                await client.admin().create_topic(topic, queues)

    asyncio.run(create())


def read_topic(
    nameserver: str, topic: str, config: ClientConfig | None = None
) -> list[ReceivedMessage]:
    """Every message of a topic, in the order of its queues."""

    async def read() -> list[ReceivedMessage]:
        async with cluster.connect(nameserver, config) as client:
            count = (await client.admin().describe_topic(topic)).message_count
            found: list[ReceivedMessage] = []
            if not count:
                return found
            async with client.reader(topic) as reader:
                while len(found) < count:
                    message = await reader.receive(10)
                    assert message is not None, f"{topic}: {len(found)} of {count} were readable"
                    found.append(message)
            return sorted(found, key=lambda one: (one.queue, one.queue_offset))

    return asyncio.run(read())


def labels(messages: Sequence[ReceivedMessage]) -> list[str]:
    return [message.properties.get("label", "") for message in messages]
