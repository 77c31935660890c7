"""Fifty planned moves under load: the official producer and our own, 1,024 in flight each.

Both have groups that consume and commit beside them. Bars: every send is answered within 2 s and
acknowledged; what is in the log is what was acknowledged, each once; every message is consumed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.client import Admin, Client
from cluster.errors import ClusterError, NotDone, OutcomeUnknown
from cluster.local.launcher import LocalCluster
from tests.waiting import limit

from .harness import toolchains
from .harness.content import create_topics, read_topic
from .harness.running import Program, started

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

VERSIONS = ("4.9.8", "5.5.0")
MOVES, IN_FLIGHT, ANSWERED_BETWEEN, ANSWER_SECONDS = 50, 1024, 500, 2.0
STOCK_TOPIC, OWN_TOPIC, OWN_GROUP = "MovedStock", "MovedOwn", "MOVED_OWN"


class OwnSends:
    """Our producer with 1,024 in flight, and a group of ours that consumes what it sends."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sent = 0
        self.acked, self.received = set[int](), set[int]()
        self.failed: list[str] = []
        self.longest_seconds = 0.0
        self.over = self.is_answered = False

    async def send_all(self) -> None:
        async with self._client.producer("MOVED_OWN_P") as producer, asyncio.TaskGroup() as sends:
            room = asyncio.Semaphore(IN_FLIGHT)
            while not self.over:
                await room.acquire()
                self.sent += 1
                sends.create_task(self._send(producer, self.sent, room))

    async def _send(self, producer: Any, number: int, room: asyncio.Semaphore) -> None:
        began = time.monotonic()
        try:
            await producer.send(OWN_TOPIC, b"%d" % number)
            self.acked.add(number)
        except ClusterError as error:
            self.failed.append(str(error))
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
        room.release()

    async def consume(self) -> None:
        async with self._client.consumer(OWN_TOPIC, group=OWN_GROUP) as consumer:
            while not (self.is_answered and self.acked <= self.received):
                for message in await consumer.receive_many(256, 1.0):
                    self.received.add(int(message.body))


async def move(admin: Admin) -> None:
    """Hand the lead to the best node; asked again when that one's time passes.

    Also when nobody knows: a producer of the same client cuts a connection that does not answer.
    """
    while True:  # the test's own limit ends it
        try:
            await admin.transfer_leader("broker-a")
            return
        except (NotDone, OutcomeUnknown):
            await asyncio.sleep(0.1)


async def moves(nameserver: str, program: Program) -> tuple[OwnSends, dict[str, Any]]:
    """Move the lead each time that both producers have some hundred answers more."""
    async with cluster.connect(nameserver) as client, asyncio.TaskGroup() as tasks:
        own, admin = OwnSends(client), Admin(client)
        sending = tasks.create_task(own.send_all())
        tasks.create_task(own.consume())
        for _ in range(MOVES):
            wanted = (len(own.acked) + ANSWERED_BETWEEN, await acked(program) + ANSWERED_BETWEEN)
            end = time.monotonic() + limit(60)
            while len(own.acked) < wanted[0] or await acked(program) < wanted[1]:
                assert time.monotonic() < end, f"{len(own.acked)} acknowledged, {own.failed[:1]}"
                await asyncio.sleep(0.05)
            await move(admin)
        own.over = True
        await sending
        own.is_answered = True
        facts = await asyncio.to_thread(program.ask, "stop")
    return own, facts


async def acked(program: Program) -> int:
    return int((await asyncio.to_thread(program.ask, "mark"))["acked"])


def stored(nameserver: str, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in read_topic(nameserver, topic))


@pytest.mark.parametrize("version", VERSIONS)
def test_fifty_planned_moves_leave_no_send_without_an_answer(
    version: str, make_session_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    try:
        toolchains.java(version)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    local = make_session_cluster()
    create_topics(local.nameserver, [STOCK_TOPIC, OWN_TOPIC])
    told = tmp_path / "acknowledged"
    arguments = [local.nameserver, STOCK_TOPIC, str(IN_FLIGHT), str(told)]
    home = tmp_path / "home"
    command = [*toolchains.java(version), f"-Duser.home={home}", "interop.Moves", *arguments]
    with started(command, home) as program:
        own, facts = asyncio.run(moves(local.nameserver, program))
    print(
        f"{MOVES} moves; stock {json.dumps(facts)}; own: {own.sent} sent, {len(own.acked)} "
        f"acknowledged, longest {own.longest_seconds:.2f} s"
    )
    assert (facts["failed"], own.failed) == (0, []), facts["error"]
    assert facts["sent"] == facts["acked"] >= MOVES * ANSWERED_BETWEEN
    assert own.sent == len(own.acked)
    stock_acked = {int(line) for line in told.read_text().split()}
    assert stored(local.nameserver, STOCK_TOPIC) == Counter(stock_acked)
    assert stored(local.nameserver, OWN_TOPIC) == Counter(own.acked)
    assert facts["received"] == facts["acked"]
    assert own.received == own.acked
    assert facts["longest_ms"] <= ANSWER_SECONDS * 1000
    assert own.longest_seconds <= ANSWER_SECONDS
