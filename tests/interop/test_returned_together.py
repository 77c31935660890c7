"""What fails in a group of ours and a stock Java member: given back by one, had again by either.

Bars: each delivery of a message comes once to whoever of the group; it comes again after the level
that was asked for, from either side (the other levels here would take a minute); both sides agree
when it was tried often enough; its dead letter is there once, and both can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.client import Client, ConsumerConfig
from cluster.client.routing.leader_requests import ask_leader
from cluster.protocol.codes import RequestCode
from commitlog.records.names import DLQ_PREFIX
from tests.waiting import RAFT_TIMINGS, eventually, within

from ..conftest import running_cluster
from .harness import toolchains

VERSION = "5.3.3"
TOPIC, GROUP, QUEUES = "Returned", "G_Returned", 4
ATTEMPTS = 3
LEVEL_SECONDS = (1, 2)
LEVELS = " ".join(["1s", "2s", *["1m"] * 16])
BAD, GOOD = [f"bad-{n}" for n in range(16)], [f"good-{n}" for n in range(4)]
OURS, JAVA = "ours", "java"


class JavaMember:
    """Returns.java, running; a thread reads what it says."""

    def __init__(self, nameserver: str, home: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self.dead: list[str] = []
        home.mkdir()
        self._home = home
        with (home / "said").open("wb") as said:
            java = [*toolchains.java(VERSION), f"-Duser.home={home}", "interop.Returns"]
            self._process = subprocess.Popen(
                [*java, nameserver, TOPIC, GROUP, str(ATTEMPTS - 1)],
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            if "dead" in found:
                self.dead = found["dead"]
            else:
                self.seen.append(found)

    def look_for_dead(self, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"dead {count}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._reading.join()
        self._process.communicate()


@contextlib.contextmanager
def java_member(nameserver: str, home: Path) -> Iterator[JavaMember]:
    try:
        member = JavaMember(nameserver, home)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    with contextlib.closing(member):
        yield member


async def create_group(mq: Client) -> None:
    """With a retry queue for each member, before a member starts: Java looks for routes seldom."""
    body = json.dumps({"groupName": GROUP, "retryQueueNums": 2}).encode()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    await ask_leader(mq.instance, "broker-a", TOPIC, code, {}, body=body)


@pytest.mark.long
@pytest.mark.timeout(600)  # the first run builds the Java programs
async def test_what_one_member_gives_back_either_has_again(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    settings = RAFT_TIMINGS | {"broker.message_delay_level": LEVELS}
    hosts = [new_address() for _ in range(2)]
    with running_cluster(tmp_path / "cluster", hosts, settings) as local:
        async with cluster.connect(local.nameserver) as mq:
            await mq.admin().create_topic(TOPIC, QUEUES)
            await create_group(mq)
            config = ConsumerConfig(manual_ack=True, max_attempts=ATTEMPTS)
            with java_member(local.nameserver, tmp_path / "home") as java:
                async with mq.consumer(TOPIC, group=GROUP, config=config) as ours:
                    await eventually(lambda: len(ours.assigned) == QUEUES // 2, "both are members")
                    await send(mq)
                    seen: list[dict[str, Any]] = []
                    wanted = len(GOOD) + ATTEMPTS * len(BAD)
                    taking = asyncio.ensure_future(take(ours, seen))
                    await eventually(
                        lambda: taking.done() or len(seen) + len(java.seen) >= wanted, "all came"
                    )
                    dead = await dead_letters(mq)
                    java.look_for_dead(len(BAD))
                    await eventually(lambda: java.dead, "the stock client has read dead letters")
                    taking.cancel()
                    await asyncio.gather(taking, return_exceptions=True)
                check(seen, java.seen)
                assert sorted(dead) == sorted(java.dead) == sorted(BAD)


async def send(mq: Client) -> None:
    async with mq.producer() as producer:
        for number, label in enumerate(BAD + GOOD):
            body = label.encode() * (1 + number % 3)
            await producer.send(TOPIC, body, properties={"label": label}, queue_id=number % QUEUES)


async def take(ours: cluster.client.Consumer, seen: list[dict[str, Any]]) -> None:
    """Give back what is bad, at level 1 first and then at level 2."""
    while True:  # until it is cancelled
        message = await ours.receive()
        assert message is not None
        label = message.properties["label"]
        seen.append(
            {
                "label": label,
                "reconsumed": message.reconsume_times,
                "stored_ms": message.store_timestamp_ms,
            }
        )
        assert message.topic == TOPIC
        if label in BAD:
            await ours.nack(message, delay_level=message.reconsume_times + 1)
        else:
            ours.ack(message)


async def dead_letters(mq: Client) -> list[str]:
    found = []
    async with mq.reader(f"{DLQ_PREFIX}{GROUP}") as reader:
        while len(found) < len(BAD):
            message = await within(reader.receive(), f"a dead letter beside {found}")
            assert message is not None
            found.append(message.properties["label"])
        assert await reader.receive(0.2) is None, "each is there once"
    return found


def check(ours: list[dict[str, Any]], java: list[dict[str, Any]]) -> None:
    """Who was given what, and when."""
    deliveries: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for name, rows in ((OURS, ours), (JAVA, java)):
        for row in rows:
            one = (int(row["reconsumed"]), int(row["stored_ms"]), name)
            deliveries[row["label"]].append(one)
    assert sorted(deliveries) == sorted(BAD + GOOD)
    moved = set()
    for label, found in deliveries.items():
        found.sort()
        attempts = ATTEMPTS if label in BAD else 1
        assert [reconsumed for reconsumed, _, _ in found] == list(range(attempts)), (label, found)
        for (_, before_ms, before), (reconsumed, stored_ms, name) in itertools.pairwise(found):
            assert stored_ms - before_ms >= LEVEL_SECONDS[reconsumed - 1] * 1000, (label, found)
            moved.add((before, name))
    assert {(OURS, JAVA), (JAVA, OURS)} <= moved, "each side had what the other one gave back"
