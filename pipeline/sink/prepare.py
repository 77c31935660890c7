"""Checks, before a write runs, that the cluster has the features that exactly-once needs; refuses
the write if not."""

from __future__ import annotations

from cluster.client import Client
from cluster.errors import ClusterError, TopicNotFound, Unauthorized
from pipeline.options import OptionError
from pipeline.sink.cluster_store import ClusterStore
from pipeline.sink.options import MARKS, SinkOptions

STAGING_QUEUES = 8


async def prepare(client: Client, options: SinkOptions) -> None:
    """Make the staging topic if it is not there, and ask for a mark. Raises OptionError,
    ClusterError."""
    topic = options.staging
    try:
        await client.routes.get(topic)
    except TopicNotFound:
        try:
            await client.admin().create_topic(topic, STAGING_QUEUES)
        except ClusterError as error:
            raise OptionError(
                f"exactly once stages rows in the topic {topic}, which is not there and could not "
                f"be made: {error}. Make it (`dledger topic create {topic} -q {STAGING_QUEUES}`), "
                f"{_OTHERWISE}"
            ) from error
    store = ClusterStore(client, options)
    try:
        await store.remembered("ASKED_BEFORE")
    except Unauthorized as error:
        raise OptionError(
            f"exactly once keeps a mark of each query as the offset of a group {MARKS}… in the "
            f"topic {topic}, and the account may not: {error}. Let it write and read the topic and "
            f"read with such groups, {_OTHERWISE}"
        ) from error
    finally:
        store.close()


_OTHERWISE = 'or take option("delivery", "at-least-once")'
