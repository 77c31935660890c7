"""Pulls: what is found, what is not, where to go on (docs/spec/remoting.md 2.3)."""

from __future__ import annotations

import asyncio

import pytest

from cluster.protocol.frames import Frame
from commitlog.records.message import decode_message
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, bodies, handled, until


async def filled(brokers: Brokers, number: int = 5) -> RawClient:
    client = await brokers.client(await brokers.leader())
    for i in range(number):
        tag = "TagA" if i % 2 else "TagB"
        assert (await client.send(body=b"%d" % i, properties=f"TAGS\x01{tag}\x02")).code == 0
    return client


def place(frame: Frame) -> tuple[int, int]:
    assert {"nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId"} <= set(frame.ext)
    return frame.code, int(frame.ext["nextBeginOffset"])


async def test_answers_by_place(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        assert place(await client.pull(offset=0)) == (0, 5)
        assert place(await client.pull(offset=3)) == (0, 5)
        assert place(await client.pull(offset=5)) == (19, 5)
        assert place(await client.pull(offset=6)) == (21, 5), "beyond the end"
        assert place(await client.pull(offset=-1)) == (21, 0), "before the beginning"
        assert place(await client.pull(queue=1, offset=0)) == (19, 0), "empty queue"
        assert place(await client.pull(queue=1, offset=7)) == (21, 0), "empty queue, other offset"


async def test_a_pull_is_bounded_in_bytes_and_never_empty(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(pull_bytes_max=3000) as brokers:
        client = await brokers.client(await brokers.leader())
        answers = await asyncio.gather(*(client.send(body=b"s") for _ in range(40)))
        assert {a.code for a in answers} == {0}
        pulled = await client.pull(count=100)
        assert len(bodies(pulled.body)) < 32, "bytes are the limit here"
        assert len(pulled.body) <= 3000
        assert (await client.send(body=b"L" * 9000)).code == 0
        large = await client.pull(offset=40)
        assert bodies(large.body) == [b"L" * 9000], "one message always comes"


async def test_the_count_of_messages_is_bounded(make_brokers: MakeBrokers) -> None:
    async with make_brokers(pull_count_max=32) as brokers:
        client = await brokers.client(await brokers.leader())
        await asyncio.gather(*(client.send(body=b"s") for _ in range(40)))
        assert len(bodies((await client.pull(count=100)).body)) == 32
        assert len(bodies((await client.pull(count=3)).body)) == 3


async def test_tags_are_filtered_by_their_hash(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        found = await client.pull(subscription="TagA")
        assert bodies(found.body) == [b"1", b"3"]
        assert place(found) == (0, 5), "what did not match is passed over"
        assert place(await client.pull(subscription="TagC")) == (20, 5)
        assert len(bodies((await client.pull(subscription="TagA || TagB")).body)) == 5


async def test_the_heartbeats_subscription_counts_when_the_pull_has_none(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        missing = await client.pull(subscription=None)
        assert missing.code == 24, "pull before heartbeat"
        assert (await client.heartbeat(expression="TagB", version=7)).code == 0
        assert bodies((await client.pull(subscription=None)).body) == [b"0", b"2", b"4"]
        assert (await client.pull(subscription=None, subVersion=8)).code == 25
        assert (await client.pull(topic="TBW102", subscription=None)).code == 24


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"topic": "nowhere"}, 17),
        ({"queue": 99}, 29),
        ({"queue": -1}, 29),
        ({"expressionType": "SQL92", "subscription": "a > '1'"}, 23),
        ({"expressionType": "XPATH", "subscription": "a"}, 23),
    ],
)
async def test_what_cannot_be_pulled(
    make_brokers: MakeBrokers, request_: dict[str, object], code: int
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        assert (await client.pull(**request_)).code == code  # type: ignore[arg-type]


async def test_a_waiting_pull_is_woken_by_its_tag(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await filled(brokers)
        waiting = client.pull(offset=5, subscription="TagA", suspend_ms=3000)
        other = client.pull(queue=2, suspend_ms=3000)
        await until(lambda: leader.parts.polls.count == 2)
        assert (await client.send(body=b"no", properties="TAGS\x01TagB\x02")).code == 0
        await handled(client)
        assert not waiting.done(), "the tag does not match"
        assert (await client.send(body=b"yes", properties="TAGS\x01TagA\x02")).code == 0
        woken = await within(waiting, "the pull that waits")
        assert bodies(woken.body) == [b"yes"], (woken.code, woken.remark, woken.ext)
        assert place(woken) == (0, 7)
        assert not other.done(), "another queue"
        assert leader.parts.polls.count == 1


async def test_a_waiting_pull_is_answered_when_its_time_is_over(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await filled(brokers)
        parked = client.pull(offset=5, suspend_ms=150)
        await until(lambda: leader.parts.polls.count == 1)
        assert place(await parked) == (19, 5)
        waiting = client.pull(offset=5, subscription="TagA", suspend_ms=300)
        assert (await client.send(properties="TAGS\x01TagB\x02")).code == 0
        assert place(await waiting) == (20, 6), "goes on behind what was looked at"
        assert leader.parts.polls.count == 0


async def test_pulls_of_closed_connections_go_away(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await filled(brokers)
        gone = await brokers.client(leader)
        gone.pull(offset=5, suspend_ms=20_000)
        await until(lambda: leader.parts.polls.count == 1)
        gone.close()
        await until(lambda: len(leader.parts.server.connections) == 1)
        assert (await client.send()).code == 0
        await until(lambda: leader.parts.polls.count == 0)


async def test_waiting_pulls_are_bounded(make_brokers: MakeBrokers) -> None:
    async with make_brokers(long_polls_max=1) as brokers:
        client = await filled(brokers)
        first = client.pull(offset=5, suspend_ms=400)
        second = await client.pull(offset=5, suspend_ms=400)
        assert second.code == 215
        assert (await first).code == 19


async def test_bodies_are_the_records_of_the_log(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await filled(brokers, 1)
        body = (await client.pull()).body
        message = decode_message(body)
        store = leader.parts.log.store
        entry = store.entry(store.index_at(message.physical_offset - 48))
        assert bytes(entry.body) == body


async def test_damage_is_told_and_never_given_out(make_brokers: MakeBrokers) -> None:
    """One record in the middle rots: its readers are told, the others are served (D7, D8)."""
    async with make_brokers() as brokers:
        client = await filled(brokers)
        position = decode_message((await client.pull()).body).physical_offset
        await brokers.stop_node(0)
        brokers.damage(0, position + 90)
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        damaged = await client.pull(offset=0)
        assert damaged.code == 14
        assert f"position {position - 48}" in (damaged.remark or "")
        assert bodies((await client.pull(offset=1)).body) == [b"1", b"2", b"3", b"4"]


async def test_what_stands_before_damage_is_given(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 6)
        record = (await client.pull(offset=3, count=1)).body
        await brokers.stop_node(0)
        brokers.damage(0, decode_message(record).physical_offset + 90)
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        pulled = await client.pull(offset=0)
        assert bodies(pulled.body) == [b"0", b"1", b"2"]
        assert place(pulled) == (0, 3)
        assert (await client.pull(offset=3)).code == 14
