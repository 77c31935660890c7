"""Consumers against stub brokers: groups, order, acks, filters, a new leader."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable

import pytest

import cluster
from cluster.client.client import Client
from cluster.client.config import ClientConfig, ClientConfigError, ConsumerConfig
from cluster.client.consumer.consumer import Consumer
from cluster.client.message import CompressionUnknown, ReceivedMessage, inflate
from cluster.errors import ClientClosed, InvalidRequest, TopicNotFound

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time

QUICK = ClientConfig(stall_timeout=0.1, request_timeout=0.5, replica_fallback=0.3)


def connect(group: StubGroup) -> Client:
    return cluster.connect(group.nameserver.address, QUICK)


async def produce(client: Client, bodies: Iterable[bytes], **more: object) -> None:
    async with client.producer() as producer:
        await asyncio.gather(*[producer.send("T", body, **more) for body in bodies])  # type: ignore[arg-type]


async def take(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(4):
        async for message in consumer:
            found.append(message)
            if len(found) == count:
                break
    return found


async def test_two_consumers_of_one_client_share_the_queues(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%d" % i for i in range(40)])
        config = ConsumerConfig(rebalance_period=0.05)
        async with (
            client.consumer("T", group="G", config=config) as first,
            client.consumer("T", group="G", config=config) as second,
            asyncio.timeout(10),
        ):
            while len(first.assigned) != 2 or len(second.assigned) != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not set(first.assigned) & set(second.assigned)
            await second.close()
            while len(first.assigned) != 4:  # noqa: ASYNC110 (who leaves does not take both along)
                await asyncio.sleep(0.01)


async def test_all_messages_in_order_per_queue(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%d" % i for i in range(600)])
        async with client.consumer("T", group="G") as consumer:
            found = await take(consumer, 600)
        assert sorted(m.body for m in found) == sorted(b"%d" % i for i in range(600))
        for queue_id in range(4):
            offsets = [m.queue_offset for m in found if m.queue.queue_id == queue_id]
            assert offsets == list(range(len(offsets)))
        message = found[0]
        assert (message.topic, len(message.message_id)) == ("T", 32)


async def test_messages_come_as_they_are_produced(group: StubGroup) -> None:
    async with connect(group) as client, client.consumer("T", group="G") as consumer:
        async with client.producer() as producer:
            for number in range(5):
                receipt = await producer.send("T", b"%d" % number)
                (message,) = await take(consumer, 1)
                assert (message.body, message.queue_offset) == (
                    b"%d" % number,
                    receipt.queue_offset,
                )
        assert await consumer.receive(0.01) is None


async def test_an_unfinished_message_comes_again(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%d" % i for i in range(10)], queue_id=0)
        async with client.consumer("T", group="G") as consumer:
            assert [m.body for m in await take(consumer, 4)] == [b"0", b"1", b"2", b"3"]
        assert group.offsets["G", "T", 0] == 3, "the loop was left inside the fourth"
        async with client.consumer("T", group="G") as consumer:
            assert [m.body for m in await take(consumer, 7)] == [b"%d" % i for i in range(3, 10)]


async def test_manual_acks(group: StubGroup) -> None:
    config = ConsumerConfig(manual_ack=True)
    async with connect(group) as client:
        await produce(client, [b"%d" % i for i in range(6)], queue_id=0)
        async with client.consumer("T", group="G", config=config) as consumer:
            found = await take(consumer, 6)
            for message in (found[0], found[1], found[3], found[3]):
                consumer.ack(message)
            await consumer.commit()
            assert group.offsets["G", "T", 0] == 2
            consumer.ack(found[2])
        assert group.offsets["G", "T", 0] == 4


async def until(condition: Callable[[], bool]) -> None:
    """Look again until it holds; the consumers' background tasks have no event to wait for."""
    async with asyncio.timeout(4):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_members_share_the_queues(group: StubGroup) -> None:
    async with (
        connect(group) as one,
        connect(group) as two,
        one.consumer("T", group="G") as first,
    ):
        await until(lambda: len(first.assigned) == 4)
        second = two.consumer("T", group="G")
        await second.start()
        await until(lambda: (len(first.assigned), len(second.assigned)) == (2, 2))
        assert not set(first.assigned) & set(second.assigned)
        for queue_id in range(4):
            await produce(one, [b"%d-%d" % (queue_id, i) for i in range(25)], queue_id=queue_id)
        found, others = await take(first, 50), await take(second, 50)
        assert len({message.body for message in [*found, *others]}) == 100
        assert {message.queue for message in found} == set(first.assigned)
        await second.close()
        await until(lambda: len(first.assigned) == 4)


async def test_a_new_leader_is_followed(group: StubGroup) -> None:
    async with connect(group) as client, client.consumer("T", group="G") as consumer:
        await produce(client, [b"%d" % i for i in range(20)])
        await take(consumer, 20)
        assert group.leader is not None
        group.leader.kill()
        group.elect(group.nodes[1])
        await produce(client, [b"%d" % i for i in range(20, 40)])
        found = await take(consumer, 20)
        assert sorted(int(m.body) for m in found) == list(range(20, 40))


async def test_only_wanted_tags(group: StubGroup) -> None:
    config = ConsumerConfig(tags="a || b")
    async with connect(group) as client:
        for tag in ("a", "c", "b", "c"):
            await produce(client, [tag.encode()], tags=tag, queue_id=0)
        async with client.consumer("T", group="G", config=config) as consumer:
            assert [m.body for m in await take(consumer, 2)] == [b"a", b"b"]
            assert await consumer.receive(0.05) is None
        assert group.offsets["G", "T", 0] == 4, "what nobody wants is passed over"


async def test_where_a_new_group_begins(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"old"], queue_id=0)
        config = ConsumerConfig(start="last")
        async with client.consumer("T", group="L", config=config) as consumer:
            assert await consumer.receive(0.1) is None
            await produce(client, [b"new"], queue_id=0)
            assert [m.body for m in await take(consumer, 1)] == [b"new"]


async def test_pulling_ahead_is_bounded(group: StubGroup) -> None:
    config = ConsumerConfig(pull_count_max=5, ahead_count_max=10)
    async with connect(group) as client:
        await produce(client, [b"%03d" % i for i in range(100)], queue_id=0)
        async with client.consumer("T", group="G", config=config) as consumer:
            first = await take(consumer, 1)
            await asyncio.sleep(0.05)
            assert consumer.held_bytes <= 15 * 3
            rest = await take(consumer, 99)
            assert [m.body for m in [*first, *rest]] == [b"%03d" % i for i in range(100)]
            assert consumer.held_bytes == 0


async def test_wrong_use(group: StubGroup) -> None:
    async with connect(group) as client:
        with pytest.raises(InvalidRequest, match="topic"):
            client.consumer(group="G")
        with pytest.raises(TopicNotFound):
            await client.consumer("Nowhere", group="G").start()
        with pytest.raises(ClientConfigError, match='"first" or "last"'):
            ConsumerConfig(start="middle")
        consumer = client.consumer("T", group="G")
        await consumer.start()
        await consumer.close()
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.receive()


def test_compressed_bodies() -> None:
    packed = zlib.compress(b"body" * 100)
    assert inflate(packed, 0x301) == inflate(packed, 1) == b"body" * 100
    assert inflate(packed, 0) == packed
    with pytest.raises(CompressionUnknown):
        inflate(packed, 0x101)
    with pytest.raises(ValueError, match="damaged"):
        inflate(b"nonsense", 1)
    with pytest.raises(ValueError, match="cut off"):
        inflate(packed[:-8], 1)


async def test_without_a_group_all_is_read_and_nothing_left_behind(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%d" % i for i in range(40)])
        for _ in range(2):  # a second reader begins anew
            async with client.reader("T") as consumer:
                found = await take(consumer, 40)
            assert sorted(m.body for m in found) == sorted(b"%d" % i for i in range(40))
        late = ConsumerConfig(start="last")
        async with client.reader("T", config=late) as consumer:
            assert await consumer.receive(0.2) is None
    assert group.offsets == {}
    assert group.members == {}


async def test_two_readers_without_a_group_share_nothing(group: StubGroup) -> None:
    async with connect(group) as client:
        await produce(client, [b"%d" % i for i in range(12)])
        async with (
            client.reader("T") as one,
            client.reader("T") as other,
        ):
            assert len(await take(one, 12)) == len(await take(other, 12)) == 12
            assert one.assigned == other.assigned


async def test_a_reader_ends_when_its_task_is_cancelled(group: StubGroup) -> None:
    """As `asyncio.run` does with every task when the program's main function has raised."""
    async with (
        connect(group) as client,
        client.consumer("T", group="G") as consumer,
        asyncio.timeout(10),
    ):
        readers = consumer._readers
        while not readers or any(one._pull is None for one in readers.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        tasks = [reader._task for reader in readers.values()]
        for task in tasks:
            task.cancel()
        _, pending = await asyncio.wait(tasks, timeout=2)
        assert not pending, "it took the cancellation for a `seek`, and the program never ends"
