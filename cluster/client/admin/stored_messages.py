"""Messages read as an administrator does: by place, by id, and a topic's by time.

Nothing is committed for the group that asks, and no member of another group hears of it.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncGenerator

from cluster.client.message import ReceivedMessage, received
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.offset_lookup import FIRST, LAST, offset_at
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import InvalidRequest, NotFound, ServerError
from cluster.protocol.codes import RequestCode, ResponseCode, exception_for
from cluster.protocol.headers import (
    PULL_FLAG_SUBSCRIPTION,
    PullRequest,
    PullResponse,
    QueryMessageRequest,
    ViewMessageRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.offset_id import decode_offset_id
from commitlog.address import join_address
from commitlog.records.message import decode_message, decode_messages

GROUP = "TOOLS_CONSUMER"
"""RocketMQ's built-in group of its tools."""
PULL_BYTES_MAX = 256 * 1024
"""Of one call of `pull`; a single larger message still comes."""
PULL_COUNT_MAX = 32
FOUND_MAX = 64
"""Messages with one key that are looked at."""

_EMPTY = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
_PLACE = re.compile(r"(?:(?P<broker>[^:]+):)?(?P<queue>\d{1,9}):(?P<offset>\d{1,18})")


async def pull(
    instance: ClientInstance, queue: MessageQueue, first: int, end: int
) -> list[ReceivedMessage]:
    """Messages `first` to `end` - 1 of a queue, or fewer, from the first on.

    Raises ClusterError.
    """
    found: list[ReceivedMessage] = []
    size = 0
    while first < end and size < PULL_BYTES_MAX:
        request = PullRequest(
            GROUP,
            queue.topic,
            queue.queue_id,
            first,
            end - first,
            PULL_FLAG_SUBSCRIPTION,
            0,
            0,
            0,
            "*",
            "TAG",
            PULL_BYTES_MAX,
            bname=queue.broker_name,
        )
        connection = await instance.leaders.connection(queue.broker_name, queue.topic)
        answer = await connection.call(
            RequestCode.PULL_MESSAGE, encode(request), time_limit=instance.config.request_timeout
        )
        if answer.code not in (0, ResponseCode.PULL_RETRY_IMMEDIATELY, *_EMPTY):
            raise exception_for(answer.code, answer.remark, answer.ext)
        following = decode(PullResponse, answer.ext).next_begin_offset
        if answer.code == 0:
            found += [
                received(queue, stored)
                for stored in decode_messages(answer.body)
                if first <= stored.queue_offset < end
            ]
            size += len(answer.body)
        if following <= first or answer.code == ResponseCode.PULL_NOT_FOUND:
            break
        first = following
    return found


async def message_at(instance: ClientInstance, queue: MessageQueue, offset: int) -> ReceivedMessage:
    """The message at a queue offset. Raises NotFound, ClusterError."""
    if queue.broker_name not in await instance.routes.registered():
        raise NotFound(f"there is no broker name {queue.broker_name}; see dledger status")
    messages = await pull(instance, queue, offset, offset + 1)
    if not messages:
        raise NotFound(
            f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} has no message "
            f"{offset}; see its first and end"
        )
    return messages[0]


async def message_by_id(instance: ClientInstance, message_id: str) -> ReceivedMessage:
    """The record at the position of an offset message id, at whichever broker has its address.

    Raises InvalidRequest for another kind of id, NotFound.
    """
    host, port, position = decode_offset_id(message_id)
    place = join_address(host, port)
    for name, data in (await instance.routes.registered()).items():
        if place not in data.addresses.values():
            continue
        request = encode(ViewMessageRequest(position))
        try:
            answer = await ask_leader(
                instance, name, DEFAULT_TOPIC, RequestCode.VIEW_MESSAGE_BY_ID, request
            )
        except ServerError as error:  # RocketMQ's answer for a position without a message
            raise NotFound(f"there is no message {message_id}; see whether it expired") from error
        stored = decode_message(answer.body)
        return received(MessageQueue(stored.topic, name, stored.queue_id), stored)
    raise NotFound(f"no broker of this cluster has the address {place}; see dledger status")


def place_in(topic: str, text: str, broker: str | None = None) -> tuple[MessageQueue, int]:
    """Queue and offset of `[BROKER:]QUEUE:OFFSET`. Raises InvalidRequest.

    Args:
        broker: the broker name, where the text has none.
    """
    found = _PLACE.fullmatch(text)
    name = found and (found["broker"] or broker)
    if found is None or not name:
        raise InvalidRequest(f"{text!r:.60} is no place; give BROKER:QUEUE:OFFSET, or QUEUE:OFFSET")
    return MessageQueue(topic, name, int(found["queue"])), int(found["offset"])


async def with_key(instance: ClientInstance, topic: str, key: str) -> list[ReceivedMessage]:
    """Messages of any topic, the system's own too, with a key or a message id, oldest first."""
    request = encode(QueryMessageRequest(topic, key, FOUND_MAX, 0, (1 << 63) - 1))
    found: list[ReceivedMessage] = []
    for name in sorted(await instance.routes.registered()):
        try:
            answer = await ask_leader(
                instance, name, DEFAULT_TOPIC, RequestCode.QUERY_MESSAGE, request
            )
        except NotFound:
            continue
        found += found_in(answer.body, topic, name)
    return sorted(found, key=lambda message: (message.store_timestamp_ms, message.position))


def found_in(body: bytes, topic: str, broker: str) -> list[ReceivedMessage]:
    """The messages of an answer to QUERY_MESSAGE. Raises StoreDamaged."""
    return [
        received(MessageQueue(topic, broker, stored.queue_id), stored)
        for stored in decode_messages(body)
    ]


async def messages_between(
    instance: ClientInstance, topic: str, from_ms: int | None = None, to_ms: int | None = None
) -> AsyncGenerator[ReceivedMessage]:
    """Messages of a topic that were stored within these times, of all queues, oldest first.

    Those that are stored while it runs are left out. Holds a few messages of each queue. Raises
    TopicNotFound.
    """
    route = await instance.routes.refresh(topic)
    queues = [
        _queue_between(instance, queue, from_ms, to_ms)
        for queue in sorted(route.read_queues(topic))
    ]
    try:
        heads = [
            (_age(message), number, message)
            for number, found in enumerate(queues)
            if (message := await anext(found, None)) is not None
        ]
        heapq.heapify(heads)
        while heads:
            _, number, message = heads[0]
            yield message
            following = await anext(queues[number], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (_age(following), number, following))
    finally:
        for found in queues:
            await found.aclose()


async def messages_of(
    instance: ClientInstance, queue: MessageQueue, first: int, end: int
) -> AsyncGenerator[ReceivedMessage]:
    """Messages `first` to `end` - 1 of a queue, a few at a time. Raises ClusterError."""
    while first < end:
        messages = await pull(instance, queue, first, min(end, first + PULL_COUNT_MAX))
        for message in messages:
            yield message
        if not messages:
            break
        first = messages[-1].queue_offset + 1


def _age(message: ReceivedMessage) -> tuple[int, int]:
    return message.store_timestamp_ms, message.queue_offset


async def _queue_between(
    instance: ClientInstance, queue: MessageQueue, from_ms: int | None, to_ms: int | None
) -> AsyncGenerator[ReceivedMessage]:
    first = await offset_at(instance, queue, from_ms or FIRST)
    end = await offset_at(instance, queue, LAST if to_ms is None else to_ms + 1)
    async for message in messages_of(instance, queue, first, end):
        yield message
