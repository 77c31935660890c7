"""Messages: of a topic by time, newest or oldest first; by key, id, or offset; and as they come.

A page of a topic is made of the ends of its queues:

    newest first   each queue's last `limit` messages ─► sorted by the time of storing ─► the last
    oldest first   each queue's first `limit` messages                                 ─► the first

The cursor holds, for each queue, the bound that the next page begins at.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from cluster.client.admin import stored_messages
from cluster.client.message import ReceivedMessage
from cluster.client.routing.offset_lookup import offset_at
from cluster.console.api.bodies import SHOWN_MAX, WHOLE_MAX, body_size, message_json
from cluster.console.api.failures import ApiError
from cluster.console.api.paging import bad_cursor, decode_cursor, encode_cursor
from cluster.console.api.source import TAILS_MAX, Source, ask_each
from cluster.console.api.table import Values
from cluster.console.api.topics import topic_bounds
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.json_body import MessageQueue

TAIL_SECONDS = 1.0
TAIL_COUNT_MAX = 200
"""Messages that a tail shows at once; those before them are counted and left out."""

Bounds = dict[MessageQueue, tuple[int, int]]


async def pull(source: Source, queue: MessageQueue, first: int, end: int) -> list[ReceivedMessage]:
    """As `stored_messages.pull`, by the console's client. Raises ClusterError."""
    return await stored_messages.pull(source.client.instance, queue, first, end)


async def list_messages(source: Source, values: Values) -> dict[str, Any]:
    """A page of a topic's messages. Raises TopicNotFound."""
    page, cursor = await page_of_messages(source, values)
    return page_json(values, page, cursor, SHOWN_MAX)


def page_json(
    values: Values, page: Sequence[ReceivedMessage], cursor: str | None, shown_max: int
) -> dict[str, Any]:
    """A page of messages; `shown_max`: bytes of a body that are shown."""
    return {
        "topic": values["topic"],
        "messages": [message_json(message, values["body"], shown_max) for message in page],
        "cursor": cursor,
    }


async def page_of_messages(
    source: Source, values: Values, *, bytes_max: int | None = None
) -> tuple[list[ReceivedMessage], str | None]:
    """Messages of a page, and the cursor of the next one. Raises TopicNotFound.

    With `bytes_max` the page ends before the bodies are together larger; one message always fits.
    """
    limit, newest = values["limit"], values["order"] == "newest"
    bounds = await _bounds(source, values)

    async def end_of(queue: MessageQueue) -> list[ReceivedMessage]:
        first, end = bounds[queue]
        if newest:
            return await pull(source, queue, max(first, end - limit), end)
        return await pull(source, queue, first, min(end, first + limit))

    pulled = dict(zip(bounds, await ask_each(end_of, list(bounds)), strict=True))
    for queue, messages in pulled.items():
        # Bytes are limited, too: what was not reached is of a later page.
        first, end = bounds[queue]
        if newest and messages and messages[-1].queue_offset < end - 1:
            pulled[queue] = await _last(source, queue, messages, end)
    page = sorted(
        (message for messages in pulled.values() for message in messages),
        key=lambda m: (m.store_timestamp_ms, m.position, m.queue),
        reverse=newest,
    )[:limit]
    if bytes_max is not None:
        page = _within(page, bytes_max)
    for message in page:
        first, end = bounds[message.queue]
        offset = message.queue_offset
        bounds[message.queue] = (first, min(end, offset)) if newest else (offset + 1, end)
    left = {queue: row for queue, row in bounds.items() if row[0] < row[1]}
    return page, _cursor(left) if left and page else None


def _within(page: list[ReceivedMessage], bytes_max: int) -> list[ReceivedMessage]:
    sums = accumulate(body_size(message) for message in page)
    return page[: max(1, bisect_right(list(sums), bytes_max))]


async def _last(
    source: Source, queue: MessageQueue, messages: list[ReceivedMessage], end: int
) -> list[ReceivedMessage]:
    """The last messages before `end`, where large ones did not fit into one answer."""
    while messages and messages[-1].queue_offset < end - 1:
        more = await pull(source, queue, messages[-1].queue_offset + 1, end)
        if not more:
            break
        messages = more
    return messages


async def _bounds(source: Source, values: Values) -> Bounds:
    """First and end of each queue that has something for the page."""
    topic = values["topic"]
    found, _ = await topic_bounds(source, topic)
    bounds = {
        queue: (row.min_offset, row.max_offset)
        for queue, row in found.items()
        if values["queue"] in (None, queue.queue_id)
        and values["broker"] in (None, queue.broker_name)
    }
    if values["cursor"] is not None:
        return _narrowed(bounds, decode_cursor(values["cursor"], list), topic)
    if values["offset"] is not None:
        newest = values["order"] == "newest"
        bounds = {
            queue: (first, min(end, values["offset"] + 1))
            if newest
            else (max(first, values["offset"]), end)
            for queue, (first, end) in bounds.items()
        }
    bounds = {queue: row for queue, row in bounds.items() if row[0] < row[1]}
    for place, moment in enumerate((values["from_ms"], values["to_ms"])):
        if moment is not None:
            bounds = await _cut(source, bounds, moment + place, place)
    return bounds


async def _cut(source: Source, bounds: Bounds, moment_ms: int, place: int) -> Bounds:
    """Bounds that begin (place 0) or end (place 1) at the first message of a moment or later."""

    async def ask(queue: MessageQueue) -> int:
        return await offset_at(source.client.instance, queue, max(moment_ms, 1))

    offsets = await ask_each(ask, list(bounds))
    found: Bounds = {}
    for (queue, (first, end)), offset in zip(bounds.items(), offsets, strict=True):
        row = (max(first, offset), end) if place == 0 else (first, min(end, offset))
        if row[0] < row[1]:
            found[queue] = row
    return found


def _cursor(bounds: Bounds) -> str:
    return encode_cursor([[q.broker_name, q.queue_id, *row] for q, row in bounds.items()])


def _narrowed(bounds: Bounds, place: list[Any], topic: str) -> Bounds:
    """The cursor's bounds, within those that the queues have now. Raises ApiError (400)."""
    found: Bounds = {}
    for row in place:
        match row:
            case [str(broker), int(number), int(first), int(end)]:
                queue = MessageQueue(topic, broker, number)
            case _:
                raise bad_cursor()
        if queue in bounds:
            now_first, now_end = bounds[queue]
            first, end = max(first, now_first), min(end, now_end)
            if first < end:
                found[queue] = first, end
    return found


async def search_messages(source: Source, values: Values) -> dict[str, Any]:
    """Messages of a topic with a key or a message id, from the key index. Raises TopicNotFound."""
    if not values["key"].strip():
        raise InvalidRequest("the key is blank; give a key or a message id")
    found = await source.admin.find_messages(
        values["topic"], values["key"], count_max=values["limit"]
    )
    return {
        "topic": values["topic"],
        "messages": [message_json(message, values["body"], SHOWN_MAX) for message in found],
        "cursor": None,
    }


async def one_message(source: Source, values: Values) -> dict[str, Any]:
    """One message with its whole body: by its offset, or by the id that holds its position."""
    if values["id"]:
        message = await stored_messages.message_by_id(source.client.instance, values["id"])
    else:
        message = await _by_offset(source, values)
    return message_json(message, values["body"], WHOLE_MAX)


async def _by_offset(source: Source, values: Values) -> ReceivedMessage:
    topic, number, offset = values["topic"], values["queue"], values["offset"]
    if not topic or number is None or offset is None:
        raise ApiError(
            400, "missing-value", "no message is named; give id, or topic, queue, offset"
        )
    found, _ = await topic_bounds(source, topic)
    for queue, row in found.items():
        is_named = queue.queue_id == number and values["broker"] in (None, queue.broker_name)
        if is_named and row.min_offset <= offset < row.max_offset:
            messages = await pull(source, queue, offset, offset + 1)
            if messages:
                return messages[0]
    raise NotFound(f"queue {number} of {topic} has no message {offset}; see its first and end")


async def tail(source: Source, values: Values) -> AsyncIterator[Mapping[str, Any] | None]:
    """Messages of a topic as they come, from the end of its queues on.

    Gives None when a second passed without one. Raises TopicNotFound, ApiError (429).
    """
    if source.tails >= TAILS_MAX:
        raise ApiError(
            429,
            "too-many-tails",
            f"{TAILS_MAX} live tails are open on this node; close one, or ask another node",
            retriable=True,
        )
    source.tails += 1
    try:
        seen = await _ends(source, values["topic"])
        while True:  # until the client goes away
            await asyncio.sleep(TAIL_SECONDS)
            ends = await _ends(source, values["topic"])
            messages, skipped = await _between(source, seen, ends)
            seen |= ends  # a queue that a look misses keeps its place
            for message in messages:
                shown = message_json(message, values["body"], SHOWN_MAX)
                yield {"message": shown, "skipped": skipped}
                skipped = 0
            if not messages:
                yield None
    finally:
        source.tails -= 1


async def _ends(source: Source, topic: str) -> dict[MessageQueue, int]:
    found, _ = await topic_bounds(source, topic)
    return {queue: row.max_offset for queue, row in found.items()}


async def _between(
    source: Source, seen: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]
) -> tuple[list[ReceivedMessage], int]:
    """Messages that came since, the newest at most, and how many before them are left out."""
    came = {q: (seen.get(q, 0), end) for q, end in ends.items() if end > seen.get(q, 0)}

    async def ask(queue: MessageQueue) -> list[ReceivedMessage]:
        first, end = came[queue]
        return await pull(source, queue, max(first, end - TAIL_COUNT_MAX), end)

    pulled = await ask_each(ask, list(came))
    every = sorted(
        (message for messages in pulled for message in messages),
        key=lambda m: (m.store_timestamp_ms, m.position),
    )
    shown = every[-TAIL_COUNT_MAX:]
    return shown, sum(end - first for first, end in came.values()) - len(shown)
