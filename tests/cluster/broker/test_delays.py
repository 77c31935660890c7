"""Delayed messages and timers over sockets: parked, delivered once when due, across leaders."""

from __future__ import annotations

import asyncio
import json

import pytest

from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from commitlog.errors import StoreDamaged
from commitlog.records.message import Message, decode_message
from commitlog.store.config_json import parse_config
from commitlog.store.config_shapes import read_delay_offsets
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import OWN, Brokers, RawClient, bodies, until

SCHEDULE, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"


def messages(data: bytes) -> list[Message]:
    found, at = [], 0
    while at < len(data):
        found.append(decode_message(data, at))
        at += found[-1].record_size
    return found


async def received(client: RawClient, count: int) -> list[Message]:
    """The messages of T/0, once there are `count`."""

    async def enough() -> list[Message] | None:
        found = messages((await client.pull(offset=0, count=32)).body)
        if len(found) < count:
            await client.pull(offset=len(found), suspend_ms=200)
            return None
        return found

    found: list[Message] = await until(enough, f"{count} messages")
    return found


async def test_a_delayed_message_is_parked_and_comes_when_it_is_due(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(body=b"now")).code == 0
        answer = await client.send(
            body=b"later", properties="DELAY\x011\x02TAGS\x01A\x02k\x01v\x02"
        )
        assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, "0", "0")
        parked = (await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, view(answer))).body
        waits = decode_message(parked)
        assert (waits.topic, waits.queue_id, waits.body) == (SCHEDULE, 0, b"later")
        assert bodies((await client.pull()).body) == [b"now"]
        _, message = await received(client, 2)
        assert message.body == b"later"
        assert 1_000 <= message.store_timestamp_ms - waits.store_timestamp_ms < 2_000
        assert (message.tags, message.properties["k"]) == ("A", "v")
        assert message.properties["REAL_TOPIC"] == "T"
        assert message.born_timestamp_ms == waits.born_timestamp_ms
        assert message.born_host == waits.born_host
        assert message.prepared_transaction_offset == waits.physical_offset


def view(answer: Frame) -> dict[str, int]:
    return {"offset": int(answer.ext["msgId"][16:], 16)}


async def test_timers(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        now_ms = brokers.clock.time_ms()
        for name, value in (
            ("TIMER_DELAY_SEC", 1),
            ("TIMER_DELAY_MS", 300),
            ("TIMER_DELIVER_MS", now_ms + 700),
            ("TIMER_DELIVER_MS", now_ms - 1),
        ):
            answer = await client.send(body=name.encode(), properties=f"{name}\x01{value}\x02")
            assert answer.code == 0, answer.remark
            assert ("recallHandle" in answer.ext) == (value != now_ms - 1)
        found = await received(client, 4)
        order = ["TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC"]
        assert [message.body.decode() for message in found] == order
        assert found[2].store_timestamp_ms - now_ms >= 700
        assert "TIMER_OUT_MS" in found[1].properties


async def test_a_producers_numbers_count_where_it_sends_to(make_brokers: MakeBrokers) -> None:
    """Repeats of a parked message are answered like it; numbers go on; copies have none."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        delayed = "__PID\x01p\x02__SEQ\x010\x02DELAY\x011\x02"
        first = await client.send(body=b"0", properties=delayed)
        again = await client.send(body=b"0", properties=delayed)
        assert first.code == 0, first.remark
        assert again.ext == first.ext
        assert (await client.numbered("p", 1, b"1")).code == 0
        found = await received(client, 2)
        assert [message.body for message in found] == [b"1", b"0"]
        assert "__PID" not in found[1].properties
        assert (await client.numbered("p", 2, b"2")).code == 0


async def test_a_restart_forgets_nothing_and_repeats_nothing(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(body=b"now")).code == 0
        for number in range(3):
            assert (await delayed(client, number, 100 + 500 * number)).code == 0
        await received(client, 2)
        await brokers.stop_node(0)
        brokers.clock.put_forward(600)
        await brokers.start_node(0)
        leader = await brokers.leader()
        client = await brokers.client(leader)
        found = await received(client, 4)
        await until(lambda: len(leader.parts.state.delayed) == 0)
        assert sorted(bodies((await client.pull()).body)) == sorted(m.body for m in found)
        assert [message.body for message in found] == [b"now", b"0", b"1", b"2"]


def delayed(client: RawClient, number: int, delay_ms: int) -> asyncio.Future[Frame]:
    return client.send(body=b"%d" % number, properties=f"TIMER_DELAY_MS\x01{delay_ms}\x02")


async def some_delivered(leader: BrokerNode) -> None:
    """A part of what waits is delivered, or nothing waits any more."""
    delays = leader.parts.state.delayed
    before = len(delays)
    await until(lambda: len(delays) < max(before - 5, 1))


async def test_each_is_delivered_once_across_leaders(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(body=b"now")).code == 0
        answers = [delayed(client, number, 300 + 20 * number) for number in range(100)]
        assert {(await answer).code for answer in answers} == {0}
        for _ in range(2):
            number = int((await brokers.leader()).config.node_id[1:])
            await brokers.stop_node(number)
            await some_delivered(await brokers.leader())
            await brokers.start_node(number)
        leader = await brokers.leader()
        await until(lambda: len(leader.parts.state.delayed) == 0)
        found = await everything(brokers)
        assert sorted(found) == sorted([b"now", *(b"%d" % number for number in range(100))])


async def test_planned_moves_lose_and_repeat_nothing(make_brokers: MakeBrokers) -> None:
    """What a leadership that ends refuses is delivered by it later, or by the next one."""
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader())
        answers = [delayed(client, number, 100 + 10 * number) for number in range(150)]
        assert {(await answer).code for answer in answers} == {0}
        for _ in range(4):
            leader = await brokers.leader()
            moved = asyncio.get_running_loop().create_future()
            leader.parts.log.transfer(None, moved.set_result)
            await within(moved, "a planned move")
            await some_delivered(await brokers.leader())
        for node in brokers.running():
            delays = node.parts.state.delayed
            await until(lambda delays=delays: len(delays) == 0)
        found = await everything(brokers)
        assert sorted(found) == sorted(b"%d" % number for number in range(150))


async def everything(brokers: Brokers) -> list[bytes]:
    client = await brokers.client(await brokers.leader())
    found: list[bytes] = []
    while more := bodies((await client.pull(offset=len(found))).body):
        found += more
    return found


async def test_a_topic_that_was_deleted_gets_nothing(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await delayed(client, 0, 300)).code == 0
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        state = leader.parts.state
        await until(lambda: len(state.delayed) == 0)
        assert state.queue_ends("rmq_sys_dledger_outcomes", 1) == [1], "every outcome is an entry"
        assert state.queue_ends("T", 1) == [0]


async def test_progress_is_exported_for_rocketmqs_tools(make_brokers: MakeBrokers) -> None:
    async with make_brokers(export_seconds=0.05) as brokers:
        client = await brokers.client(await brokers.leader())
        for level in (1, 1, 3):
            assert (await client.send(properties=f"DELAY\x01{level}\x02")).code == 0
        path = brokers.root / "n0" / "config" / "delayOffset.json"

        def progress() -> dict[int, int]:
            return (
                read_delay_offsets(parse_config(path.read_bytes(), "f"))[0] if path.exists() else {}
            )

        await until(lambda: progress() == {1: 0, 3: 0})
        await until(lambda: progress() == {1: 2, 3: 0})
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = json.loads(answer.body)["table"]
        assert (table["scheduleMessageOffset_1"], table["scheduleMessageOffset_3"]) == (
            "2,2",
            "0,1",
        )
        assert table["timerCongestNum"] == "1"


@pytest.mark.parametrize("level", [18, 19, 99])
async def test_levels_above_the_last_are_the_last(make_brokers: MakeBrokers, level: int) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(properties=f"DELAY\x01{level}\x02")).code == 0
        parked = messages((await client.pull(topic=SCHEDULE, queue=17)).body)
        assert parked[0].properties["DELAY"] == "18"


async def test_levels_of_the_settings(make_brokers: MakeBrokers) -> None:
    async with make_brokers(message_delay_level="1h 1s") as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for level in (1, 9):  # above the last: the last
            assert (
                await client.send(body=b"%d" % level, properties=f"DELAY\x01{level}\x02")
            ).code == 0
        (message,) = await received(client, 1)
        assert (message.body, message.properties["DELAY"]) == (b"9", "2")
        state = leader.parts.state
        await until(lambda: len(state.delayed) == 1)
        entry = leader.parts.derived.queue(SCHEDULE, 0).read(0, 1)[0]
        assert state.delayed.next_due_ms(entry.tags_code - 1_000) == entry.tags_code, (
            "the queue says the same time"
        )


async def test_more_than_the_limit_are_refused(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.core.delay.delayed.WAITING_MAX", 1)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await delayed(client, 0, 900)).code == 0
        await until(lambda: len(leader.parts.state.delayed) == 1)
        refused = await delayed(client, 1, 100)
        assert refused.code == 2, "busy: it may be sent again later"
        assert [message.body for message in await received(client, 1)] == [b"0"]
        await until(lambda: len(leader.parts.state.delayed) == 0)
        assert (await delayed(client, 2, 100)).code == 0


async def test_one_that_cannot_be_read_holds_no_other_back(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.broker.delay.delivery.UNREADABLE_SECONDS", 0.3)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        damaged = await delayed(client, 0, 100)
        reader, real = leader.parts.reader, leader.parts.reader.record
        broken = [int(damaged.ext["msgId"][16:], 16)]

        def record(position: int) -> bytes | memoryview:
            if position in broken:
                raise StoreDamaged("made up", position=position)
            return real(position)

        monkeypatch.setattr(reader, "record", record)
        assert (await delayed(client, 1, 100)).code == 0
        assert [message.body for message in await received(client, 1)] == [b"1"]
        broken.clear()  # repaired
        assert [message.body for message in await received(client, 2)] == [b"1", b"0"]


async def test_stamps_that_are_ahead_hold_no_level_back(make_brokers: MakeBrokers) -> None:
    """A clock was an hour fast and is right again: stamps wait for it (R24), messages do not."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        leader.parts.tables.clock.seen(brokers.clock.time_ms() + 3_600_000)
        answer = await client.send(body=b"later", properties="DELAY\x011\x02")
        assert answer.code == 0
        (message,) = await received(client, 1)
        assert message.body == b"later"
