"""Delayed messages while leaders are killed: each is delivered once, soon after it is due (R17).

How late, in the long one: at most a second after the due time, plus the time in which nobody led
behind it. All stamps are of one machine's clock.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.live.nodes import Nodes
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode
from commitlog.records.message import Message, decode_message
from tests.cluster.broker.harness import RawClient
from tests.waiting import RAFT_TIMINGS, eventually

SMALL = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(1 << 20),
}
LATE_MS_MAX = 1_000
QUEUES = 4


@dataclass(frozen=True, slots=True)
class Interval:
    """Nobody led, in ms since 1970."""

    begin_ms: float
    end_ms: float


async def address_of(nodes: Nodes, node: str) -> str:
    statuses = await nodes.statuses()
    status = statuses[node]
    assert status is not None
    return str(status["address"])


async def park(client: RawClient, count: int, span_ms: int) -> dict[bytes, str]:
    """Send `count` messages due over `span_ms`, levels and timers; body → what was asked."""
    asked: dict[bytes, str] = {}
    answers = []
    levels = 3 if span_ms > 10_000 else 1
    for number in range(count):
        delay_ms = 1_000 + span_ms * number // count
        wanted = f"TIMER_DELAY_MS\x01{delay_ms}\x02"
        if number % 4 == 0:
            wanted = f"DELAY\x01{1 + number // 4 % levels}\x02"
        body = b"%d" % number
        asked[body] = wanted
        answers.append(client.send("D", body, number % QUEUES, wanted))
        if len(answers) % 100 == 0:
            assert {(await answer).code for answer in answers[-100:]} == {0}
    assert {(await answer).code for answer in answers} == {0}
    return asked


async def kill_again_and_again(nodes: Nodes, kills: int, count: int) -> list[Interval]:
    """SIGKILL the leader, wait for the next one, start the dead one again.

    Each when the next part of the messages was delivered, while others wait.
    """
    gaps = []
    for kill in range(kills):
        await until_delivered(nodes, count * (kill + 1) // (kills + 1))
        leader = await nodes.leader()
        began = time.time() * 1000
        await nodes.kill(leader)
        await nodes.leader(other_than=leader)
        gaps.append(Interval(began, time.time() * 1000))
        await nodes.restart(leader)
        await nodes.ready()
    return gaps


async def until_delivered(nodes: Nodes, count: int) -> None:
    """So many messages of the topic are there to read."""
    client = await RawClient.connect(await address_of(nodes, await nodes.leader()))

    async def are_there() -> bool:
        ends = [
            await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "D", "queueId": queue})
            for queue in range(QUEUES)
        ]
        return sum(int(answer.ext.get("offset", 0)) for answer in ends) >= count

    await eventually(are_there, f"{count} messages", 120)
    client.close()


async def everything(client: RawClient, topic: str, queues: int) -> list[Message]:
    found: list[Message] = []
    for queue in range(queues):
        offset = 0
        while (answer := await client.pull(topic, queue, offset)).code == 0:
            at = 0
            while at < len(answer.body):
                message = decode_message(answer.body, at)
                found.append(message)
                at += message.record_size
            offset = int(answer.ext["nextBeginOffset"])
    return found


def delay_of(wanted: str) -> int:
    name, _, value = wanted.rstrip("\x02").partition("\x01")
    return int(value) if name == "TIMER_DELAY_MS" else (1_000, 5_000, 10_000)[int(value) - 1]


def leaderless_ms(gaps: list[Interval], begin_ms: float, end_ms: float) -> float:
    """How much of begin..end nobody led."""
    return sum(max(0.0, min(gap.end_ms, end_ms) - max(gap.begin_ms, begin_ms)) for gap in gaps)


async def run(root: Path, count: int, span_ms: int, kills: int, *, in_time: bool) -> None:
    made = LocalCluster.create(root, plan.plan(3, plan.scratch_hosts(3)), SMALL, tied=True)
    async with Nodes(made) as nodes:
        client = await RawClient.connect(await address_of(nodes, await nodes.leader()))
        asked = await park(client, count, span_ms)
        client.close()
        gaps = await kill_again_and_again(nodes, kills, count)
        await until_delivered(nodes, count)
        await nodes.settled()
        client = await RawClient.connect(await address_of(nodes, await nodes.leader()))
        delivered = await everything(client, "D", QUEUES)
        parked = await everything(client, "rmq_sys_wheel_timer", 1)
        for level in range(3):
            parked += await everything(client, "SCHEDULE_TOPIC_XXXX", level + 1)
        client.close()
    assert Counter(message.body for message in delivered) == Counter(asked.keys())
    stored_ms = {message.body: message.store_timestamp_ms for message in parked}
    for message in delivered:
        due_ms = stored_ms[message.body] + delay_of(asked[message.body])
        late_ms = message.store_timestamp_ms - due_ms
        assert late_ms >= 0, message.body
        allowed = LATE_MS_MAX + leaderless_ms(gaps, due_ms, message.store_timestamp_ms)
        assert late_ms <= allowed or not in_time, (message.body, late_ms, allowed, gaps)


@pytest.mark.timeout(60)
def test_a_leader_killed(tmp_path: Path) -> None:
    asyncio.run(run(tmp_path / "c", count=200, span_ms=3_000, kills=1, in_time=False))


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_thousand_messages_and_a_leader_killed_every_three_seconds(tmp_path: Path) -> None:
    asyncio.run(run(tmp_path / "c", count=1_000, span_ms=24_000, kills=8, in_time=True))
