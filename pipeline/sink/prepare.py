"""Checks, before a write runs, that the cluster has the features that exactly-once needs; refuses
the write if not."""

from __future__ import annotations

import logging

from cluster.client import Client
from cluster.errors import ClusterError, TopicNotFound, Unauthorized
from cluster.protocol.route import TopicRoute
from pipeline.options import OptionError
from pipeline.sink.cluster_store import ClusterStore
from pipeline.sink.options import MARKS, SinkOptions

_log = logging.getLogger(__name__)
STAGING_QUEUES = 8
CREATED_QUEUES = 8  # of a topic that a write makes


async def needed_topic(client: Client, topic: str, options: SinkOptions) -> TopicRoute:
    """The route of a topic that rows go to; with `create_topic` the topic is made.

    A broker that creates topics by itself is not asked to: a misspelt name would take the rows, and
    the readers of the right one would wait.

    Raises OptionError, ClusterError.
    """
    try:
        return await client.routes.get(topic)
    except TopicNotFound as error:
        if not options.create_topic:
            raise OptionError(
                f"there is no topic {topic}; make it (`dledger topic create {topic}`), or give "
                'option("createTopic", "true")'
            ) from error
    await client.admin().create_topic(topic, CREATED_QUEUES)
    return await client.routes.refresh(topic)


async def prepare(client: Client, options: SinkOptions) -> None:
    """Make the staging topic if it is not there, ask for a mark, and whether brokers number
    producers. Raises OptionError, ClusterError."""
    topic = options.staging
    try:
        await _spread(client, topic, await client.routes.get(topic))
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
        await store.check_rights()
        if not await store.numbers_producers():
            raise OptionError(
                "exactly once needs brokers that number what each producer sends, and the broker "
                f"of {topic} does not (Apache RocketMQ's have no numbers): a repeated row would be "
                f"stored again. Write to a cluster of dledger, {_OTHERWISE}"
            )
    except Unauthorized as error:
        raise OptionError(
            f"exactly once keeps a mark of each query as the offset of a group {MARKS}… in the "
            f"topic {topic}, and the account may not: {error}. Let it write and read the topic and "
            f"read with such groups, {_OTHERWISE}"
        ) from error
    finally:
        store.close()


async def _spread(client: Client, topic: str, route: TopicRoute) -> None:
    """Makes the staging topic on brokers that came after it.

    Only a broker that has it can be told where a query keeps its mark. If it were on some alone,
    and these away, it would be made anew on the others, which know of no batch in part.
    """
    lacking = set(await client.routes.registered()) - {data.broker_name for data in route.queues}
    if not lacking:
        return
    try:
        await client.admin().create_topic(topic, STAGING_QUEUES)
    except ClusterError as error:
        _log.warning(
            "the staging topic %s is not on %s, and could not be made there: %s. Make it (`dledger "
            "topic create %s -q %d`): while the other brokers are away, these cannot tell which "
            "rows of a batch are published",
            *(topic, ", ".join(sorted(lacking)), error, topic, STAGING_QUEUES),
        )


_OTHERWISE = 'or take option("delivery", "at-least-once") and leave txnAppId out'
