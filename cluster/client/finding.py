"""Messages by key, as brokers' key indexes know them (request 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.client.message import ReceivedMessage, received
from cluster.client.repeating import ask_leader
from cluster.errors import NotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import QueryMessageRequest, encode
from cluster.protocol.json_body import MessageQueue
from commitlog.message import decode_message

if TYPE_CHECKING:
    from cluster.client.client import Client

TIME_MAX_MS = (1 << 63) - 1


async def find_by_key(
    client: Client, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
) -> list[ReceivedMessage]:
    """See `Admin.find_messages`."""
    route = await client.routes.refresh(topic)
    request = encode(QueryMessageRequest(topic, key, count_max, begin_ms, end_ms))
    found: list[ReceivedMessage] = []
    for data in route.brokers:
        name = data.broker_name
        try:
            answer = await ask_leader(client, name, topic, RequestCode.QUERY_MESSAGE, request)
        except NotFound:
            continue
        at = 0
        while at < len(answer.body):
            stored = decode_message(answer.body, at)
            at += stored.record_size
            found.append(received(MessageQueue(topic, name, stored.queue_id), stored))
    return sorted(found, key=lambda message: message.store_timestamp_ms)[:count_max]
