"""Messages that fail: given back, tried again, kept apart; and how consumers choose their place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.client import FIRST, LAST, Client, Consumer, ConsumerConfig, ReceivedMessage
from cluster.client.admin.group_admin import GroupAdmin
from cluster.client.consumer import consumer as consumer_module
from cluster.client.consumer.handlers import SendBack
from cluster.client.consumer.offset_stores import FileOffsetStore
from cluster.client.consumer.queue_locks import TRUSTED_SECONDS, QueueLocks
from cluster.commands.groups import _member_rows
from cluster.errors import GroupNotFound, InvalidRequest, Unauthorized
from cluster.protocol.json_body import MessageQueue
from commitlog.records.names import DLQ_PREFIX
from tests.waiting import eventually, within

from .conftest import MakeBrokers
from .test_our_client import create, serving

Address = Callable[[], str]

#: Every level waits a second, the shortest there is.
SHORT = " ".join(["1s"] * 18)
MANUAL = ConsumerConfig(manual_ack=True)


async def fill(mq: Client, count: int, topic: str = "T") -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    async with mq.producer() as producer:
        for body in bodies:
            await producer.send(topic, body)
    return bodies


async def bodies_of(consumer: Consumer, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = await consumer.receive(30.0)
        assert message is not None
        found.append(message.body)
    return found


def member(mq: Client, config: ConsumerConfig = MANUAL) -> Consumer:
    return mq.consumer("T", group="G", config=config)


class Fails:
    """A handler that fails for a message so many times."""

    def __init__(self, body: bytes, times: int) -> None:
        self.body, self.times = body, times
        self.seen: list[tuple[bytes, int]] = []

    async def __call__(self, message: ReceivedMessage) -> None:
        assert message.topic == "T", "its own topic, also when it comes again"
        self.seen.append((message.body, message.attempt))
        if message.body == self.body and message.attempt <= self.times:
            raise ValueError("not today")


async def handled(consumer: Consumer, handler: Fails, count: int) -> None:
    """Run it until the handler has seen so many."""
    async with consumer:
        running = asyncio.ensure_future(consumer.run(handler))
        await eventually(lambda: len(handler.seen) >= count or running.done(), "all are handled")
        await consumer.close()
        await within(running, "it ends when the consumer is closed")


async def test_a_handler_that_raises_gets_it_again_and_the_queue_goes_on(
    make_brokers: MakeBrokers, new_address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(make_brokers, new_address(), message_delay_level=SHORT) as (_, mq):
        await fill(mq, 4)
        consumer, handler = member(mq), Fails(b"1", 2)
        await handled(consumer, handler, 6)
        assert handler.seen[:4] == [(b"0", 1), (b"1", 1), (b"2", 1), (b"3", 1)]
        assert handler.seen[4:] == [(b"1", 2), (b"1", 3)]
        assert consumer.handler_failures == 2
        assert "at attempt 2 of 17, and it is given back: ValueError('not today')" in caplog.text
        async with member(mq) as later:
            assert await later.lag()
            assert sum(row.messages for row in await later.lag()) == 0, "all of it is done"


async def test_what_fails_each_time_becomes_a_dead_letter(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    async with serving(make_brokers, new_address(), message_delay_level=SHORT) as (_, mq):
        await fill(mq, 2)
        config = ConsumerConfig(manual_ack=True, max_attempts=2)
        handler = Fails(b"0", 100)
        await handled(member(mq, config), handler, 3)
        assert handler.seen == [(b"0", 1), (b"1", 1), (b"0", 2)]
        async with mq.reader(f"{DLQ_PREFIX}G") as dead:
            assert await bodies_of(dead, 1) == [b"0"]


async def test_a_message_can_be_kept_apart_at_once(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 1)
        async with member(mq) as consumer:
            message = await consumer.receive(30.0)
            assert message is not None
            await consumer.nack(message, delay_level=-1)
            assert sum(row.messages for row in await consumer.lag()) == 0
        async with mq.reader(f"{DLQ_PREFIX}G") as dead:
            found = await dead.receive(30.0)
            assert found is not None
            assert (found.body, found.properties["DLQ_ORIGIN_TOPIC"]) == (b"0", "T")


async def test_a_cancelled_handler_leaves_its_message_to_the_group(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 2)
        begun = asyncio.Event()

        async def never(message: ReceivedMessage) -> None:
            begun.set()
            await asyncio.Event().wait()

        async with member(mq) as consumer:
            running = asyncio.ensure_future(consumer.run(never, concurrency=2))
            await begun.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        async with member(mq) as consumer:
            assert await bodies_of(consumer, 2) == [b"0", b"1"]


async def test_an_ordered_queue_waits_for_what_failed(
    make_brokers: MakeBrokers, new_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "ORDERED_PAUSE", 0.01)
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 4)
        config = ConsumerConfig(manual_ack=True, ordered=True, max_attempts=3)
        handler = Fails(b"1", 100)
        await handled(member(mq, config), handler, 6)
        attempts = [(b"1", 1), (b"1", 2), (b"1", 3)]
        assert handler.seen == [(b"0", 1), *attempts, (b"2", 1), (b"3", 1)]
        async with mq.reader(f"{DLQ_PREFIX}G") as dead:
            assert await bodies_of(dead, 1) == [b"1"]


async def test_an_ordered_queue_is_handed_out_one_by_one(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 3)
        async with member(mq, ConsumerConfig(manual_ack=True, ordered=True)) as consumer:
            first = await consumer.receive(30.0)
            assert first is not None
            assert await consumer.receive(0.05) is None, "the one before is not done"
            consumer.ack(first)
            assert await bodies_of(consumer, 1) == [b"1"]


async def test_an_ordered_queue_moves_when_what_is_in_hand_is_done(
    make_brokers: MakeBrokers, new_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two members would handle one queue at once, and the second one the same message."""
    config = ConsumerConfig(manual_ack=True, ordered=True)
    async with serving(make_brokers, new_address()) as (brokers, mq):
        await fill(mq, 3)
        monkeypatch.setattr(mq.instance, "new_member_id", iter(("b", "a")).__next__)
        locks = (await brokers.leader()).parts.state.locks
        async with member(mq, config) as first:
            message = await first.receive(30.0)
            assert message is not None
            async with member(mq, config) as second:  # its id is lower, so the queue is to be its
                await eventually(lambda: first._ready._leaving, "the first is to give it up")
                assert locks.owner("G", ("T", 0)) == "b", "what is in hand is not done"
                assert await second.receive(0.05) is None
                first.ack(message)
                assert await bodies_of(second, 1) == [b"1"], "in order, and none twice"
                assert locks.owner("G", ("T", 0)) == "a"
                assert first.assigned == []


async def test_an_ordered_member_that_closes_gives_its_queues_up_after_its_handlers(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    async with serving(make_brokers, new_address()) as (brokers, mq):
        await fill(mq, 2)
        locks = (await brokers.leader()).parts.state.locks
        began, may_end = asyncio.Event(), asyncio.Event()
        seen = []

        async def handler(message: ReceivedMessage) -> None:
            seen.append(message.body)
            began.set()
            await may_end.wait()

        consumer = member(mq, ConsumerConfig(manual_ack=True, ordered=True))
        await consumer.start()
        running = asyncio.ensure_future(consumer.run(handler))
        await within(began.wait(), "the handler begins")
        closing = asyncio.ensure_future(consumer.close())
        await eventually(lambda: consumer.is_closed, "it is being closed")
        assert locks.owner("G", ("T", 0))
        assert not closing.done()
        may_end.set()
        await within(closing, "it is closed")
        await within(running, "its handlers have ended")
        assert seen == [b"0"], "the next one is the next member's"
        await eventually(lambda: not locks.owner("G", ("T", 0)), "the queue is free")
        async with member(mq) as following:
            assert await bodies_of(following, 1) == [b"1"]


async def test_an_ordered_message_that_is_given_back_twice_comes_once(
    make_brokers: MakeBrokers, new_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "ORDERED_PAUSE", 0.01)
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 2)
        async with member(mq, ConsumerConfig(manual_ack=True, ordered=True)) as consumer:
            first = await consumer.receive(30.0)
            assert first is not None
            await consumer.nack(first)
            await consumer.nack(first)
            second = await consumer.receive(30.0)
            assert second is not None
            await consumer.nack(first)  # what was handed out before, again
            assert (second.body, second.attempt) == (b"0", 2)
            assert await consumer.receive(0.05) is None
            consumer.ack(second)
            assert await bodies_of(consumer, 1) == [b"1"]


async def test_an_ordered_queue_goes_on_behind_what_no_broker_takes_back(
    make_brokers: MakeBrokers, new_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 2)

        async def refused(*_: object) -> None:
            raise Unauthorized("the test takes nothing back")

        monkeypatch.setattr(SendBack, "send_back", refused)
        config = ConsumerConfig(manual_ack=True, ordered=True, max_attempts=1)
        handler = Fails(b"0", 100)
        await handled(member(mq, config), handler, 2)
        assert handler.seen == [(b"0", 1), (b"1", 1)]
        async with member(mq) as consumer:
            assert await bodies_of(consumer, 1) == [b"0"], "it is not lost"


async def test_a_lock_is_one_members_and_is_not_trusted_when_it_is_old(
    make_brokers: MakeBrokers, new_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        queue = MessageQueue("T", "broker-a", 0)
        one, other = QueueLocks(mq, "G", "one"), QueueLocks(mq, "G", "other")
        async with member(mq):
            assert await one.lock([queue]) == {queue}
            assert await other.lock([queue]) == set()
            assert (one.is_held(queue), other.is_held(queue)) == (True, False)
            one._renewed[queue] -= TRUSTED_SECONDS
            assert not one.is_held(queue)
            await one.unlock([queue])
            assert await other.lock([queue]) == {queue}


async def test_seek_goes_back_and_forth(make_brokers: MakeBrokers, new_address: Address) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 5)
        async with member(mq) as consumer:
            first = await consumer.receive(30.0)
            assert first is not None
            queue = first.queue
            consumer.seek(queue, 3)
            consumer.ack(first)
            assert await bodies_of(consumer, 2) == [b"3", b"4"]
            assert await consumer.seek_to(FIRST) == {queue: 0}
            assert await bodies_of(consumer, 1) == [b"0"]
            assert await consumer.seek_to(LAST) == {queue: 5}
            assert await consumer.receive(0.05) is None
            assert await consumer.seek_to(first.store_timestamp_ms) == {queue: 0}
            consumer.seek(queue, 2)
            await consumer.commit()
            (row,) = [row for row in await consumer.lag() if row.queue.topic == "T"]
            assert (row.queue, row.next, row.end, row.messages) == (queue, 2, 5, 3)
            assert row.seconds > 0
            for place in (MessageQueue("T", "broker-a", 7), queue):
                with pytest.raises(InvalidRequest, match="cannot go to -1"):
                    consumer.seek(place, -1)
            with pytest.raises(InvalidRequest, match="no time"):
                await consumer.seek_to(-2)


async def test_a_group_is_listed_described_and_moved_while_it_consumes(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await fill(mq, 3)
        groups = mq.admin().groups()
        with pytest.raises(GroupNotFound, match="dledger group list"):
            await groups.describe("G")
        async with member(mq) as consumer:
            for _ in range(3):
                message = await consumer.receive(30.0)
                assert message is not None
                consumer.ack(message)
            await consumer.commit()
            found = await groups.describe("G")
            assert (len(found.members), found.messages, found.seconds) == (1, 0, 0.0)
            assert found.subscriptions["T"] == "*"
            assert not found.members[0].is_shared
            assert [row.name for row in await groups.describe_all()] == ["G"]
            assert list((await groups.reset("G", "T", FIRST)).values()) == [0]
            assert await bodies_of(consumer, 3) == [b"0", b"1", b"2"], "it was told"
        await groups.reset("G", "T", LAST)
        assert (await groups.describe("G")).messages == 0


async def test_a_second_living_connection_with_a_used_id_is_named(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    """Two that say they are client@1 are given the same queues; one that has its own id is not."""
    async with serving(make_brokers, new_address()) as (brokers, mq):
        await fill(mq, 1)
        node = await brokers.leader()
        twins = [await brokers.client(node) for _ in range(2)]
        for twin in twins * 2:
            assert (await twin.heartbeat("G")).code == 0
        async with member(mq):
            groups = mq.admin().groups()
            await eventually(lambda: _two_of(groups), "both ids are members")
            found = await groups.describe("G")
            shared = {one.client_id: one.is_shared for one in found.members}
            assert shared.pop("client@1")
            assert list(shared.values()) == [False]
            notes = {row["member"]: row["note"] for row in _member_rows(found)}
            assert notes["client@1"] == "its id is used by another connection, too"


async def _two_of(groups: GroupAdmin) -> bool:
    return len((await groups.describe("G")).members) == 2


async def test_several_at_once(make_brokers: MakeBrokers, new_address: Address) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        bodies = await fill(mq, 5)
        async with mq.consumer("T", group="G") as consumer:
            found: list[bytes] = []
            while len(found) < 5:
                some = await consumer.receive_many(3, 30.0)
                assert 1 <= len(some) <= 3
                found += [message.body for message in some]
            assert found == bodies
            assert await consumer.receive_many(3, 0.01) == [], "asking acks those before"
        async with mq.consumer("T", group="G") as consumer:
            assert await consumer.receive(0.05) is None


async def test_a_condition_on_properties(make_brokers: MakeBrokers, new_address: Address) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        async with mq.producer() as producer:
            for number in range(6):
                await producer.send("T", b"%d" % number, properties={"size": str(number)})
        config = ConsumerConfig(sql="size > 2 AND size <> 4")
        async with member(mq, config) as consumer:
            assert await bodies_of(consumer, 2) == [b"3", b"5"]


async def test_each_broadcasting_member_reads_everything_and_keeps_its_place(
    make_brokers: MakeBrokers, new_address: Address, tmp_path: Path
) -> None:
    def config(name: str) -> ConsumerConfig:
        file = tmp_path / "positions" / name
        return ConsumerConfig(broadcast=True, positions_file=file)

    async with serving(make_brokers, new_address()) as (_, mq):
        bodies = await fill(mq, 3)
        async with member(mq, config("a")) as one, member(mq, config("b")) as two:
            assert await bodies_of(one, 3) == bodies
            assert await bodies_of(two, 2) == bodies[:2]
            message = await two.receive(30.0)
            assert message is not None
            with pytest.raises(InvalidRequest, match="has no group"):
                await two.nack(message)
        assert json.loads((tmp_path / "positions" / "a").read_text()) == {"T@broker-a@0": 2}
        async with member(mq, config("a")) as one:
            assert await bodies_of(one, 1) == bodies[2:], "it was not acked"
        (tmp_path / "positions" / "b").write_text("[]")
        with pytest.raises(InvalidRequest, match="is no file of positions"):
            member(mq, config("b"))


async def test_broadcasting_handler_that_raised_is_not_run_again_for_that_message(
    make_brokers: MakeBrokers, new_address: Address, tmp_path: Path
) -> None:
    """Nothing is retried there, neither at once nor when the member starts anew."""
    config = ConsumerConfig(
        broadcast=True, positions_file=tmp_path / "positions", manual_ack=True, pull_count_max=1
    )
    async with serving(make_brokers, new_address()) as (_, mq):
        bodies = await fill(mq, 3)
        seen: list[bytes] = []

        async def handler(message: ReceivedMessage) -> None:
            seen.append(message.body)
            if message.body == bodies[0]:
                raise ValueError("this message is refused")

        async with member(mq, config) as consumer:
            running = asyncio.create_task(consumer.run(handler))
            await eventually(lambda: len(seen) == 3, "three messages seen")
            assert consumer.handler_failures == 1
        await running
        assert json.loads((tmp_path / "positions").read_text()) == {"T@broker-a@0": 3}
        assert seen == bodies


async def test_a_deleted_topic_is_gone(make_brokers: MakeBrokers, new_address: Address) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        await create(mq, "gone")
        await fill(mq, 1, "gone")
        await mq.admin().delete_topic("gone")
        assert "gone" not in await mq.admin().list_topics()


async def test_a_handler_whose_own_task_was_cancelled_has_failed(
    make_brokers: MakeBrokers, new_address: Address
) -> None:
    """It raises CancelledError, and nobody cancelled `run`: that goes on."""
    async with serving(make_brokers, new_address(), message_delay_level=SHORT) as (_, mq):
        await fill(mq, 2)

        class Waits(Fails):
            async def __call__(self, message: ReceivedMessage) -> None:
                self.seen.append((message.body, message.attempt))
                if len(self.seen) == 1:
                    inner = asyncio.ensure_future(asyncio.Event().wait())
                    inner.cancel()
                    await inner

        consumer, handler = member(mq), Waits(b"", 0)
        await handled(consumer, handler, 3)
        assert handler.seen == [(b"0", 1), (b"1", 1), (b"0", 2)]
        assert consumer.handler_failures == 1


async def test_positions_that_cannot_be_written_are_written_later(
    tmp_path: Path,
) -> None:
    positions = FileOffsetStore(tmp_path / "later" / "positions.json")
    (tmp_path / "later").write_text("where the folder should be")
    queue = MessageQueue("T", "broker-a", 0)
    with pytest.raises(InvalidRequest, match="cannot be written"):
        await positions.store(queue, 1)
    (tmp_path / "later").unlink()
    await positions.store(queue, 2)
    assert await FileOffsetStore(tmp_path / "later" / "positions.json").find(queue) == 2
