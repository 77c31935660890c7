"""Group lag as monitors see it: messages and seconds, the leader's alone, of bounded size."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cluster.broker.admin.groups import lags as group_lags
from cluster.broker.admin.groups.lags import GroupLags
from cluster.broker.admin.groups.waiting import waiting, waiting_ms
from cluster.broker.node import BrokerNode
from cluster.core.group_lag import GroupLag
from cluster.protocol.codes import RequestCode as Code
from commitlog.errors import StoreDamaged

from .conftest import MakeBrokers
from .harness import RawClient, until


def lags_of(node: BrokerNode) -> GroupLags:
    return GroupLags(node.parts.admin_ports)


async def commit(client: RawClient, group: str, offset: int, topic: str = "T") -> None:
    ext = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    assert (await client.ask(Code.UPDATE_CONSUMER_OFFSET, ext)).code == 0


async def span_ms(client: RawClient, group: str) -> int:
    """What `group describe` is told: the age of queue 0's next message."""
    found = await client.ask(Code.QUERY_CONSUME_TIME_SPAN, {"group": group, "topic": "T"})
    spans = json.loads(found.body)["consumeTimeSpanSet"]
    return int(next(s["delayTime"] for s in spans if s["messageQueue"]["queueId"] == 0))


async def test_what_waits_for_a_group_and_since_when(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for _ in range(5):
            assert (await client.send()).code == 0
        await commit(client, "SLOW", 2)
        await commit(client, "QUICK", 5)
        lags = lags_of(leader)
        await lags.look()
        slow, quick = lags.lags.rows
        assert (slow[:3], quick) == (("SLOW", "T", 3), GroupLag("QUICK", "T", 0, 0.0))
        assert lags.lags.left_out == 0

        # An hour later, by the clock that store times are compared with.
        ports = leader.parts.admin_ports
        now_ms = ports.now_ms
        object.__setattr__(ports, "now_ms", lambda: now_ms() + 3_600_000)
        again = lags_of(leader)
        await again.look()
        seconds = again.lags.rows[0].seconds
        assert 3600 <= seconds < 3700
        assert await span_ms(client, "SLOW") >= seconds * 1000, "the same, asked later"
        assert await span_ms(client, "QUICK") == 0

        follower = await brokers.follower()
        others = lags_of(follower)
        await others.look()
        assert others.lags.rows == ()


async def test_messages_that_were_deleted_wait_for_nobody(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for _ in range(5):
            assert (await client.send()).code == 0
        ports = leader.parts.admin_ports
        await until(lambda: ports.queues.bounds("T", 0) == (0, 5))
        queue = ports.derived.queue("T", 0)
        assert queue is not None
        ports.queues.bounds = lambda *_: (3, 5)  # type: ignore[method-assign]
        assert waiting(ports, "T", 0, 1) == (3, 5)
        assert waiting(ports, "T", 0, None) == (3, 5)
        assert waiting(ports, "T", 0, 9) == (5, 5), "beyond the end nothing waits"
        assert waiting_ms(ports, "T", 0, 5) == 0


async def test_rows_and_work_are_bounded(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with most messages are shown; a store time that cannot be read hides no row."""
    monkeypatch.setattr(group_lags, "PAIRS_MAX", 2)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for _ in range(5):
            assert (await client.send()).code == 0
        for number in range(4):
            await commit(client, f"G{number}", number + 1)

        def damaged(*_: Any) -> int:
            raise StoreDamaged("rotten", position=0)

        monkeypatch.setattr(leader.parts.reader, "store_time", damaged)
        lags = lags_of(leader)
        await lags.look()
        shown = [GroupLag("G0", "T", 4, 0.0), GroupLag("G1", "T", 3, 0.0)]
        assert (list(lags.lags.rows), lags.lags.left_out) == (shown, 2)
        monkeypatch.setattr(group_lags, "QUEUES_MAX", 0)
        none = lags_of(leader)
        await none.look()
        assert none.lags == ((), 4)


async def test_two_monitors_at_once_are_one_look(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        await commit(client, "G", 0)
        looks: list[int] = []
        count = GroupLags._count

        async def counted(self: GroupLags) -> Any:
            looks.append(1)
            return await count(self)

        monkeypatch.setattr(GroupLags, "_count", counted)
        lags = lags_of(leader)
        await lags.look()
        await lags.look()
        assert len(looks) == 1
        assert [row.messages for row in lags.lags.rows] == [1]


async def test_messages_in_flight_of_many_queues_are_counted_in_several_turns(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of groups for which none waits, so that no store time is read."""
    monkeypatch.setattr(group_lags, "QUEUES_A_TURN", 1)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        for number in range(4):
            await commit(client, f"G{number}", 1)
        turn, seen = 0, list[int]()

        async def count_turns() -> None:
            nonlocal turn
            while True:  # until it is cancelled
                turn += 1
                await asyncio.sleep(0)

        def in_flight(*_: object) -> int:
            seen.append(turn)
            return 0

        monkeypatch.setattr(GroupLags, "_in_flight", in_flight)
        counting = asyncio.ensure_future(count_turns())
        await lags_of(leader).look()
        counting.cancel()
        assert len(set(seen)) == len(seen) == 4
