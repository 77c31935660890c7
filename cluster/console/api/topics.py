"""Topics: their names by kind, and one topic with its queues, route, settings and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cluster.client.admin.topics import TopicSettings, topic_settings
from cluster.console.api.paging import page_of_names
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.errors import ClusterError
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import TopicRequest, encode
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import BrokerData
from cluster.protocol.topics import QueueBounds, decode_put_rate, decode_topic_stats
from commitlog.records.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

KINDS = ("user", "retry", "dead", "system")
ALL = "all"


def kind_of(topic: str, brokers: Mapping[str, BrokerData]) -> str:
    """One of KINDS, in a cluster with these brokers."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead"
    is_system = any(
        is_system_topic(topic, cluster=data.cluster, broker=name) for name, data in brokers.items()
    )
    return "system" if is_system else "user"


async def list_topics(source: Source, values: Values) -> dict[str, Any]:
    """A page of topics, by name."""
    brokers = await source.client.instance.routes.registered()
    names = sorted(
        name
        for name in await source.admin.list_topics()
        if values["kind"] in (ALL, kind_of(name, brokers))
    )
    page, cursor = page_of_names(names, values)

    async def row(name: str) -> dict[str, Any]:
        try:
            bounds, rate = await topic_bounds(source, name)
        except ClusterError as error:
            # Deleted meanwhile, or its broker has no leader: the page shows the rest.
            return {"name": name, "kind": kind_of(name, brokers), "error": str(error)}
        return {
            "name": name,
            "kind": kind_of(name, brokers),
            "queues": len(bounds),
            "messages": _count(bounds),
            "messages_in_per_second": rate,
            "written_ms": max((row.last_update_timestamp for row in bounds.values()), default=0),
        }

    rows = await ask_each(row, page)
    return {"topics": rows, "total": len(names), "cursor": cursor}


def _count(bounds: Mapping[MessageQueue, QueueBounds]) -> int:
    return sum(row.max_offset - row.min_offset for row in bounds.values())


async def topic_bounds(source: Source, topic: str) -> tuple[dict[MessageQueue, QueueBounds], float]:
    """Bounds of each queue, and messages per second of the last minute, on all brokers.

    Raises TopicNotFound, ClusterError.
    """
    route = await source.client.instance.routes.refresh(topic)
    bounds: dict[MessageQueue, QueueBounds] = {}
    rate = 0.0
    for data in route.brokers:
        answer = await source.ask(
            data.broker_name,
            RequestCode.GET_TOPIC_STATS_INFO,
            encode(TopicRequest(topic)),
            topic,
        )
        bounds |= decode_topic_stats(answer.body)
        rate += decode_put_rate(answer.body)
    return dict(sorted(bounds.items())), rate


async def describe_topic(source: Source, values: Values) -> dict[str, Any]:
    """One topic."""
    topic = values["topic"]
    brokers = await source.client.instance.routes.registered()
    route = await source.client.instance.routes.refresh(topic)
    bounds, rate = await topic_bounds(source, topic)
    names = [data.broker_name for data in route.brokers]

    async def settings(name: str) -> TopicSettings:
        return await topic_settings(source.client.instance, name, topic)

    async def groups(name: str) -> list[str]:
        request = encode(TopicRequest(topic))
        answer = await source.ask(name, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, request, topic)
        return list(orjson.loads(answer.body).get("groupList", ()))

    found = await ask_each(settings, names)
    readers = await ask_each(groups, names)
    return {
        "name": topic,
        "kind": kind_of(topic, brokers),
        "messages": _count(bounds),
        "messages_in_per_second": rate,
        "route": [
            {
                "broker": data.broker_name,
                "cluster": data.cluster,
                "leader": data.leader,
                "addresses": data.nodes,
            }
            for data in route.brokers
        ],
        "settings": [
            {
                "broker": name,
                "read_queues": row.read_queues,
                "write_queues": row.write_queues,
                "perm": row.perm,
                "durability": row.durability.value if row.durability else None,
            }
            for name, row in zip(names, found, strict=True)
        ],
        "queues": [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "first": row.min_offset,
                "end": row.max_offset,
                "messages": row.max_offset - row.min_offset,
                "written_ms": row.last_update_timestamp,
            }
            for queue, row in bounds.items()
        ],
        "groups": sorted({group for names_ in readers for group in names_}),
    }
