"""Messages that `async for` took from a queue and did not give yet: order, acks, seeks, close."""

from __future__ import annotations

import asyncio

import pytest

from cluster.client.config import ConsumerConfig
from cluster.client.consumer.hand import HAND_COUNT
from cluster.errors import ClientClosed
from tests.waiting import eventually

from ..stub_cluster import StubGroup
from .test_consumer import connect, produce, take

pytestmark = pytest.mark.virtual_time


async def test_lists_go_on_behind_the_loop_and_the_loop_behind_lists(group: StubGroup) -> None:
    """Each way of asking acks what the other one gave; nothing is left out or comes twice."""
    async with connect(group) as client:
        await produce(client, [b"%02d" % i for i in range(60)], queue_id=0)
        async with client.consumer("T", group="G") as consumer, asyncio.timeout(4):
            found = await take(consumer, 3)
            found += await consumer.receive_many(4)
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 3, "the list of four is not acked yet"
            found += await take(consumer, 1)
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 7
            one = await consumer.receive()
            assert one is not None
            found.append(one)
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 8
            found += await take(consumer, 51)
            assert [m.body for m in found] == [b"%02d" % i for i in range(60)]
        assert group.offsets["G", "T", 0] == 59, "the loop was left inside the last one"


async def test_after_a_seek_the_loop_is_at_the_new_place(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%02d" % i for i in range(60)], queue_id=0)
        async with client.consumer("T", group="G") as consumer:
            (first,) = await take(consumer, 1)
            assert consumer.held_bytes > 0
            consumer.seek(first.queue, 40)
            assert consumer.held_bytes == 0
            assert [m.body for m in await take(consumer, 2)] == [b"40", b"41"]
        assert group.offsets["G", "T", 0] == 41


async def test_a_closed_consumer_gives_nothing_of_its_hand(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%02d" % i for i in range(60)], queue_id=0)
        consumer = client.consumer("T", group="G")
        await consumer.start()
        await take(consumer, 2)
        await consumer.close()
        with pytest.raises(StopAsyncIteration):
            await consumer.__anext__()
        with pytest.raises(ClientClosed):
            await consumer.receive()
        assert group.offsets["G", "T", 0] == 1
        async with client.consumer("T", group="G") as other:
            assert [m.body for m in await take(other, 2)] == [b"01", b"02"], "they come again"


async def test_manual_acks_out_of_the_hand(group: StubGroup) -> None:
    config = ConsumerConfig(manual_ack=True)
    async with connect(group) as client:
        await produce(client, [b"%02d" % i for i in range(10)], queue_id=0)
        async with client.consumer("T", group="G", config=config) as consumer:
            found = await take(consumer, 6)
            for message in (found[0], found[2]):
                consumer.ack(message)
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 1
            consumer.ack(found[1])
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 3


async def test_a_message_given_back_is_not_acked_by_the_next(group: StubGroup) -> None:
    """`nack` that fails leaves the group's offset before its message."""
    async with connect(group) as client:
        await produce(client, [b"%02d" % i for i in range(10)], queue_id=0)
        async with client.consumer("T", group="G") as consumer:
            (first,) = await take(consumer, 1)
            consumer._hand.forget(first)
            await take(consumer, 3)
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 0


async def test_a_queue_with_much_to_read_holds_up_no_other(group: StubGroup) -> None:
    """Readers take turns, each for one hand of messages."""
    async with connect(group) as client:
        await produce(client, [b"much"] * 300, queue_id=0)
        await produce(client, [b"one"], queue_id=1)
        async with client.consumer("T", group="G") as consumer:
            size = 300 * len(b"much") + len(b"one")
            await eventually(lambda: consumer.held_bytes == size, "all is read ahead")
            bodies = [m.body for m in await take(consumer, 2 * HAND_COUNT + 1)]
            assert bodies.count(b"one") == 1
