"""Mistakes of a programmer who uses the client: said at the call, and nothing else suffers."""

from __future__ import annotations

import array
import asyncio
from typing import Any

import pytest

import cluster
import cluster.client
from cluster.errors import InvalidRequest, NotDone
from cluster.local.launcher import LocalCluster
from tests.waiting import within

WRONG: list[tuple[Any, Any, dict[str, Any], str]] = [
    ("misuse", "text", {}, "type str and must be bytes"),
    ("misuse", None, {}, "type NoneType and must be bytes"),
    ("misuse", 5, {}, "type int and must be bytes"),
    (7, b"x", {}, "the topic is 7"),
    (None, b"x", {}, "the topic is None"),
    ("misuse", b"x", {"key": 5}, "'KEYS' = 5 is no text"),
    ("misuse", b"x", {"tags": b"t"}, "is no text"),
    ("misuse", b"x", {"properties": {"a": 1}}, "'a' = 1 is no text"),
    ("misuse", b"x", {"properties": {1: "a"}}, "is no text"),
    ("misuse", b"x", {"key": "\ud800"}, "UTF-8"),
    ("misuse", b"x", {"key": "a\x02TAGS\x01b"}, "separator"),
    ("misuse", b"x", {"key": ""}, "empty name or value"),
    ("misuse", b"x", {"properties": {"__PID": "me"}}, "reserved"),
    ("misuse", b"x", {"queue_id": 99}, "queue 99 does not exist"),
    ("misuse", b"x", {"queue_id": -1}, "queue -1 does not exist"),
]


async def test_wrong_arguments_are_refused_and_the_producer_goes_on(
    local_cluster: LocalCluster,
) -> None:
    async with cluster.connect(local_cluster.nameserver) as client, client.producer() as producer:
        offsets = []
        for topic, body, extra, said in WRONG:
            with pytest.raises(InvalidRequest, match=said) as raised:
                await producer.send(topic, body, **extra)
            assert isinstance(raised.value, NotDone)
            receipt = await within(producer.send("misuse", b"right", queue_id=0), "a receipt")
            offsets.append(receipt.queue_offset)
        assert offsets == list(range(len(WRONG)))


async def test_buffers_are_sent_as_they_were(local_cluster: LocalCluster) -> None:
    """Their bytes at the time of the call, whatever becomes of them, whatever their items are."""
    changing = bytearray(b"before")
    numbers = array.array("i", range(5))
    async with cluster.connect(local_cluster.nameserver) as client:
        async with client.producer() as producer:
            await producer.send("buffers", b"first", key="one")
            waiting = asyncio.ensure_future(producer.send("buffers", changing, key="one"))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            await producer.send("buffers", memoryview(numbers), key="one")  # type: ignore[arg-type]
            changing[:] = b"after!"
            await waiting
        bodies = set()
        async with client.consumer("buffers", group="buffers") as consumer:
            async for message in consumer:
                bodies.add(message.body)
                if len(bodies) == 3:
                    break
    assert bodies == {b"first", b"before", numbers.tobytes()}


async def test_cancelled_sends_leave_the_others_alone(local_cluster: LocalCluster) -> None:
    async with cluster.connect(local_cluster.nameserver) as client:
        async with client.producer() as producer:
            sends = [
                asyncio.ensure_future(producer.send("cancelled", b"%d" % number, key="one"))
                for number in range(200)
            ]
            await asyncio.sleep(0)
            for send in sends[::2]:
                send.cancel()
            results = await asyncio.gather(*sends, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
            kept = [result.queue_offset for result in results[1::2]]  # type: ignore[union-attr]
            assert kept == sorted(set(kept)), "the others are stored, in order, once"
            last = await producer.send("cancelled", b"last", key="one")
            assert last.queue_offset > kept[-1]
        seen = []
        async with client.consumer("cancelled", group="cancelled") as consumer:
            async for message in consumer:
                seen.append(message.body)
                if message.body == b"last":
                    break
        assert len(seen) == len(set(seen)) == last.queue_offset + 1
        assert {b"%d" % number for number in range(1, 200, 2)} <= set(seen)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("", "the group is empty"),
        ("two words", "other characters than"),
        ("gé", "other characters than"),
        ("g" * 300, "300 characters and 120 is the limit"),
        (None, "the group is None"),
        (5, "the group is 5"),
    ],
)
async def test_a_group_that_cannot_be_is_told_at_once(
    group: Any, said: str, local_cluster: LocalCluster
) -> None:
    """And for good: whoever retries what `retriable` says would wait for ever."""
    async with cluster.connect(local_cluster.nameserver) as client:
        async with client.producer() as producer:
            await producer.send("misuse", b"there is a topic")
        with pytest.raises(InvalidRequest, match=said) as raised:
            await within(client.consumer("misuse", group=group).start(), "a refusal")
        assert not raised.value.retriable


def test_tags_are_text() -> None:
    with pytest.raises(cluster.client.ClientConfigError, match="tags is None"):
        cluster.ConsumerConfig(tags=None)  # type: ignore[arg-type]
