"""What a message costs in function calls: no more than in `call_counts.toml`, which is committed.

Calls of this project's functions and those that they make into C, per message, by `sys.setprofile`:
time says little on a machine that others use, and calls are what interpreted code pays for. Each
figure is the least of several rounds, since a round may be cut into more turns of the event loop
when the machine is busy.

    CALL_COUNTS=write pytest tests/cluster/broker/test_call_counts.py   after a gain or with reason
"""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType

import pytest

from cluster.client import Client
from commitlog.records.message_layout import body_crc
from dledger import Entry, RaftConfig, ReplicatedNode, ReplicatedStateMachine
from tests.dledger.runtime.group import PORT, Group

from .conftest import MakeBrokers
from .test_our_client import serving

pytestmark = pytest.mark.usefixtures("numpy_loaded")

FILE = Path(__file__).with_name("call_counts.toml")
ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(str(ROOT / package) + os.sep for package in ("commitlog", "dledger", "cluster"))
GROWTH_MAX = 1.05
COUNT, ROUNDS = 64, 8
PULL_COUNT = 512  # so many that what a consumer does at its start is little
BODY = bytes(range(100))


class Calls:
    """Counts calls while it is entered, in this thread."""

    def __init__(self) -> None:
        self.count = 0
        self._ours: dict[CodeType, bool] = {}

    def __enter__(self) -> Calls:
        sys.setprofile(self._happened)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _happened(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_call"):
            return
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(OURS)
        self.count += ours


async def least(work: Callable[[], Awaitable[object]], count: int = COUNT) -> float:
    """Calls per message of the round with the fewest; `work` handles `count` messages."""
    await work()  # caches are filled, routes known
    found = []
    for _ in range(ROUNDS):
        with Calls() as calls:
            await work()
        found.append(calls.count)
    return min(found) / count


def check(name: str, calls: float) -> None:
    """Fails if a message costs 5 % more calls than the file says."""
    allowed: dict[str, float] = tomllib.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("CALL_COUNTS") == "write":
        allowed[name] = round(calls, 2)
        lines = [f"{key} = {value}\n" for key, value in sorted(allowed.items())]
        FILE.write_text("# Calls per message; see test_call_counts.py.\n" + "".join(lines))
        return
    assert calls <= allowed[name] * GROWTH_MAX, (
        f"{name}: a message costs {calls:.2f} calls, and {allowed[name]} were enough before; find "
        "what calls more, or write the file anew (CALL_COUNTS=write) and say why in the commit"
    )


async def sent(mq: Client, count: int) -> None:
    async with mq.producer() as producer:
        await asyncio.gather(*(producer.send("T", BODY, key="k") for _ in range(count)))


async def test_a_send(make_brokers: MakeBrokers, new_address: Callable[[], str]) -> None:
    """`await send` in tasks: client, broker and log of one node, in one process."""
    async with serving(make_brokers, new_address()) as (_, mq), mq.producer() as producer:
        calls = await least(
            lambda: asyncio.gather(*(producer.send("T", BODY) for _ in range(COUNT)))
        )
    check("send", calls)


async def test_pulls(make_brokers: MakeBrokers, new_address: Callable[[], str]) -> None:
    """Our client from the start, in both forms, and pulls of 32 as stock clients send them."""
    async with serving(make_brokers, new_address()) as (brokers, mq):
        await sent(mq, PULL_COUNT)

        async def each() -> None:
            left = PULL_COUNT
            async with mq.reader("T") as reader:
                async for message in reader:
                    assert message.body == BODY
                    assert message.keys == ["k"]
                    left -= 1
                    if not left:
                        return

        async def batches() -> None:
            left = PULL_COUNT
            async with mq.reader("T") as reader:
                while left:
                    left -= len(await reader.receive_many(PULL_COUNT))

        raw = await brokers.client(await brokers.leader())

        async def of_32() -> None:
            for offset in range(0, PULL_COUNT, 32):
                assert (await raw.pull(offset=offset)).code == 0

        found = {"pull_each": each, "pull_batch": batches, "pull_32": of_32}
        for name, work in found.items():
            check(name, await least(work, PULL_COUNT))


async def test_an_embedded_append(tmp_path: Path, new_address: Callable[[], str]) -> None:
    group = Group(tmp_path, new_address, size=1)
    await group.start()
    try:
        log = await group.leader()
        calls = await least(lambda: asyncio.gather(*(log.append(BODY) for _ in range(COUNT))))
    finally:
        await group.close()
    check("append", calls)


class Summed(ReplicatedStateMachine[int, int]):
    """A sum of numbers, whose value each command gets."""

    value = 0

    def apply(self, entry: Entry[int]) -> int:
        self.value += entry.command
        return self.value


async def test_an_embedded_command(tmp_path: Path, new_address: Callable[[], str]) -> None:
    """`propose` of a state machine with its result, on one node."""
    config = RaftConfig(
        "n0",
        {"n0": (new_address(), PORT)},
        tmp_path / "n0",
        cluster_id="counted",
        data_file_size=4 << 20,
        index_file_size=640_000,
        entry_size_max=1 << 20,
    )
    async with ReplicatedNode(config, Summed(), create=True) as node:
        calls = await least(lambda: asyncio.gather(*(node.propose(1) for _ in range(COUNT))))
    check("command", calls)


def test_growth_is_noticed() -> None:
    """One of this project's functions, and what it calls in C."""
    with Calls() as calls:
        crc = [body_crc(BODY) for _ in range(10)]
    assert len(set(crc)) == 1
    assert calls.count == 20
