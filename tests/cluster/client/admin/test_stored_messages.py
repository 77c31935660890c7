"""Messages of a topic between two times, of all its queues; which topic one was sent to first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.admin import stored_messages
from cluster.client.admin.resending import origin_topic, resend
from cluster.client.admin.stored_messages import messages_between
from cluster.client.message import ReceivedMessage, received
from cluster.client.routing.offset_lookup import LAST
from cluster.errors import InvalidRequest, TopicNotFound
from cluster.protocol.json_body import MessageQueue
from commitlog.records.message import Message, decode_message, encode_message


def made(queue: MessageQueue, offset: int, at_ms: int, **properties: str) -> ReceivedMessage:
    record = Message(
        queue.topic,
        b"x",
        properties=properties,
        queue_id=queue.queue_id,
        queue_offset=offset,
        store_timestamp_ms=at_ms,
    )
    return received(queue, decode_message(encode_message(record)))


async def test_queues_of_all_brokers_come_in_the_order_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever stops in the middle has all that is older."""
    stored = {
        MessageQueue("T", "a", 0): [100, 300, 301],
        MessageQueue("T", "b", 0): [50, 200],
        MessageQueue("T", "b", 1): [],
    }

    async def offset_at(_: object, queue: MessageQueue, place: int) -> int:
        return len(stored[queue]) if place == LAST else 0

    async def pull(_: object, queue: MessageQueue, at: int, end: int) -> list[ReceivedMessage]:
        return [made(queue, n, stored[queue][n]) for n in range(at, min(end, at + 2))]

    async def refresh(_: str) -> Any:
        return SimpleNamespace(read_queues=lambda _: list(stored))

    monkeypatch.setattr(stored_messages, "offset_at", offset_at)
    monkeypatch.setattr(stored_messages, "pull", pull)
    instance: Any = SimpleNamespace(routes=SimpleNamespace(refresh=refresh))
    found = [message.store_timestamp_ms async for message in messages_between(instance, "T")]
    assert found == [50, 100, 200, 300, 301]


@pytest.mark.parametrize(
    ("properties", "origin"),
    [
        ({"DLQ_ORIGIN_TOPIC": "orders", "RETRY_TOPIC": "other"}, "orders"),
        ({"RETRY_TOPIC": "orders"}, "orders"),
        ({}, "%DLQ%g"),
    ],
)
def test_the_topic_of_a_dead_letter(properties: dict[str, str], origin: str) -> None:
    assert origin_topic(made(MessageQueue("%DLQ%g", "a", 0), 0, 1, **properties)) == origin


async def test_a_letter_without_its_topic_is_not_sent_among_the_dead() -> None:
    nothing: Any = None
    with pytest.raises(InvalidRequest, match="which topic"):
        await resend(nothing, nothing, made(MessageQueue("%DLQ%g", "a", 0), 0, 1))


async def test_no_topic_is_made_by_sending_again() -> None:
    async def refresh(topic: str) -> None:
        raise TopicNotFound(topic)

    instance: Any = SimpleNamespace(routes=SimpleNamespace(refresh=refresh))
    with pytest.raises(TopicNotFound):
        await resend(instance, Any, made(MessageQueue("gone", "a", 0), 0, 1))  # type: ignore[arg-type]
