"""Tails of a topic, of the command and of the API: a look that misses a queue loses no place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.client import Client, ReceivedMessage
from cluster.commands import tail
from cluster.console.api import messages
from cluster.console.api.source import Source
from cluster.protocol.json_body import MessageQueue

FIRST, SECOND = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 0)
#: The ends at each look; the second broker name is away at one of them.
LOOKS = [{FIRST: 1000, SECOND: 1000}, {FIRST: 1000}, {FIRST: 1001, SECOND: 1002}]
NEW = [(FIRST, 1000), (SECOND, 1000), (SECOND, 1001)]

Ends = Callable[..., Any]


def message(queue: MessageQueue, offset: int) -> ReceivedMessage:
    return cast(
        ReceivedMessage,
        SimpleNamespace(queue=queue, queue_offset=offset, store_timestamp_ms=offset, position=0),
    )


@pytest.fixture
def ends() -> Ends:
    looks = iter(LOOKS)

    async def look(*_: object) -> dict[MessageQueue, int]:
        return dict(next(looks))

    return look


async def test_a_followed_topic_goes_on_where_each_queue_was(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    async def of(
        _: object, queue: MessageQueue, first: int, end: int
    ) -> AsyncIterator[ReceivedMessage]:
        for offset in range(first, end):
            yield message(queue, offset)

    async def first_offset(*_: object) -> int:
        return 0

    monkeypatch.setattr(tail, "LOOK_SECONDS", 0)
    monkeypatch.setattr(tail, "_ends", ends)
    monkeypatch.setattr(tail, "messages_of", of)
    monkeypatch.setattr(tail, "offset_at", first_offset)
    client = cast(Client, SimpleNamespace(instance=None))
    found = tail.messages_of_tail(client, "T", 0, follow=True)
    came = [await anext(found) for _ in NEW]
    assert sorted((one.queue, one.queue_offset) for one in came) == NEW


async def test_a_live_tail_goes_on_where_each_queue_was(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    async def pull(_: object, queue: MessageQueue, first: int, end: int) -> list[ReceivedMessage]:
        return [message(queue, offset) for offset in range(first, end)]

    monkeypatch.setattr(messages, "TAIL_SECONDS", 0)
    monkeypatch.setattr(messages, "_ends", ends)
    monkeypatch.setattr(messages, "pull", pull)
    monkeypatch.setattr(messages, "message_json", lambda one, *_: (one.queue, one.queue_offset))
    source = cast(Source, SimpleNamespace(tails=0))
    found = messages.tail(source, {"topic": "T", "body": "auto"})
    came = []
    while len(came) < len(NEW):
        row = await anext(found)
        if row is not None:
            assert row["skipped"] == 0
            came.append(row["message"])
    assert sorted(came) == NEW
