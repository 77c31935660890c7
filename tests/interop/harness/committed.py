"""A group's stored positions, asked of the leaders with our own client."""

from __future__ import annotations

import asyncio

import cluster
from cluster.errors import NotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import OffsetResponse, QueryConsumerOffsetRequest, decode, encode
from cluster.protocol.json_body import MessageQueue


def committed(nameserver: str, topic: str, group: str) -> dict[MessageQueue, int]:
    """Queue → next offset of the group; queues without one are left out."""

    async def ask() -> dict[MessageQueue, int]:
        found = {}
        async with cluster.connect(nameserver) as client:
            route = await client.routes.refresh(topic)
            for queue in route.read_queues(topic):
                connection = await client.leaders.connection(queue.broker_name, topic)
                request = QueryConsumerOffsetRequest(
                    group, topic, queue.queue_id, False, queue.broker_name
                )
                try:
                    answer = await connection.ask(
                        RequestCode.QUERY_CONSUMER_OFFSET, encode(request), time_limit=5.0
                    )
                except NotFound:
                    continue
                found[queue] = decode(OffsetResponse, answer.ext).offset
        return found

    return asyncio.run(ask())
