"""A topic with known messages in a running cluster, and what a read of it gives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from cluster.client.blocking import connect
from cluster.client.config import ProducerConfig
from cluster.local.launcher import LocalCluster
from pipeline.source.options import SourceOptions, source_options
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.reading import read
from pipeline.source.remote import remote

_names = itertools.count()


class Message(NamedTuple):
    """What was sent and where it is."""

    queue: int
    offset: int
    body: bytes
    key: str
    tag: str


def new_topic(cluster: LocalCluster, queues: int = 4) -> str:
    """An empty topic that no other test has."""
    topic = f"Source{next(_names)}-{cluster.root.parent.name}"[:80]
    with connect(cluster.nameserver) as mq:
        mq.admin().create_topic(topic, queues)
    return topic


def fill(
    cluster: LocalCluster, topic: str, count: int = 40, first: int = 0, *, spread: bool = True
) -> list[Message]:
    """Send `count` messages; tags a, b, c in turn, with keys and a property.

    `spread`: round the queues of the only broker name; else by key, wherever that leads.
    """
    sent = []
    with (
        connect(cluster.nameserver) as mq,
        mq.producer(config=ProducerConfig(batching=True)) as producer,
    ):
        queues = producer.open_topic(topic)
        for number in range(first, first + count):
            body, key, tag = b"body-%d" % number, f"k{number}", "abc"[number % 3]
            receipt = producer.send_nowait(
                topic,
                body,
                key=key,
                tags=tag,
                properties={"n": str(number)},
                queue_id=number % queues if spread else None,
            )
            sent.append((receipt, body, key, tag))
        producer.flush()
        messages = [
            Message(r.result().queue.queue_id, r.result().queue_offset, body, key, tag)
            for r, body, key, tag in sent
        ]
    return sorted(messages)


def options(
    cluster: LocalCluster, given: Mapping[str, str], *, streaming: bool = False
) -> SourceOptions:
    """Options with the cluster's address, and not much patience."""
    base = {"bootstrap.servers": cluster.nameserver, "numRetries": "20"}
    return source_options({**base, **given}, streaming=streaming)


def rows(found: SourceOptions) -> list[dict[str, Any]]:
    """A batch read, one task after the other."""
    place = remote(found)
    planned = tasks(place, found, batch_ranges(place, found))
    return [row for task in planned for batch in read(found, task) for row in batch.to_pylist()]


def identity(found: list[dict[str, Any]]) -> list[tuple[int, int, bytes]]:
    """Queue, offset and body of every row, in order of the first two."""
    return sorted((row["queue"], row["offset"], row["value"]) for row in found)


def expected(messages: list[Message]) -> list[tuple[int, int, bytes]]:
    """The same of what was sent."""
    return sorted((m.queue, m.offset, m.body) for m in messages)
