"""The ready objects on three nodes: from any of them, once, and by the log's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from dledger import Consistency, Entry, LogUsageError, MachineSettings
from dledger.machine.state_machine import bytes_of
from dledger.objects.counter import CounterMachine, ReplicatedCounter
from dledger.objects.dictionary import DictMachine, ReplicatedDict
from dledger.objects.election import LeaderElection
from dledger.objects.lock import LockMachine, ReplicatedLock
from dledger.objects.replicated_object import ReplicatedObject
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, within

T = TypeVar("T", bound=ReplicatedObject[Any, Any] | LeaderElection)
Three = Callable[[type[T]], Coroutine[Any, Any, list[T]]]
PATIENT = MachineSettings(propose_seconds=60)


@pytest_asyncio.fixture
async def three(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Three[Any]]:
    """Starts an object on three nodes."""
    made: list[ReplicatedObject[Any, Any]] = []

    async def make(kind: type[Any]) -> list[Any]:
        for config in Group(tmp_path, new_address).configs.values():
            made.append(kind(config, create=True, settings=PATIENT, clock=LoopClock()))
            await made[-1].start()
        return made

    yield make
    for one in made:
        await one.close()


async def test_a_counter(three: Three[ReplicatedCounter]) -> None:
    counters = await three(ReplicatedCounter)
    sums = await within(asyncio.gather(*[c.add(2) for c in counters for _ in range(50)]), "sums")
    assert sorted(sums) == list(range(2, 302, 2))
    assert [await counter.value() for counter in counters] == [300] * 3


async def test_a_dictionary(three: Three[ReplicatedDict[Any]]) -> None:
    one, two, _ = await three(ReplicatedDict)
    assert await one.set("a", [1]) is None
    assert await two.set("a", [2, {"b": None}]) == [1]
    found = await one.get("a")
    assert found == [2, {"b": None}]
    found.append("mine alone")
    assert await one.get("a", Consistency.LOCAL) == [2, {"b": None}]
    assert await two.setdefault("a", 7) == [2, {"b": None}]
    assert await two.setdefault("c", 7) == 7
    await one.update({"d": 1, "e": 2})
    assert await two.pop("d") == 1
    assert await two.pop("d") is None
    assert await one.items() == {"a": [2, {"b": None}], "c": 7, "e": 2}
    assert await one.size() == 3
    await two.clear()
    assert await one.size() == 0
    with pytest.raises(LogUsageError, match="key is text"):
        await one.set(1, 2)  # type: ignore[arg-type]


async def test_a_lock_is_held_once_and_its_tokens_rise(three: Three[ReplicatedLock]) -> None:
    one, two, _ = await three(ReplicatedLock)
    first = await within(one.acquire("x", lease=3600), "a free lock")
    assert await two.try_acquire("x", lease=3600) is None
    waiting = asyncio.ensure_future(two.acquire("x", lease=3600))
    renewed = await one.renew(first, lease=7200)
    assert renewed is not None
    assert (renewed.token, renewed.ends_at > first.ends_at) == (first.token, True)
    assert not waiting.done()
    assert await one.release(renewed)
    second = await within(waiting, "the lock that was released")
    assert second.token > first.token
    assert await one.renew(renewed, lease=1) is None
    assert not await one.release(renewed)
    held = await one.holder("x")
    assert held is not None
    assert held.token == second.token
    with pytest.raises(LogUsageError, match="lease"):
        await one.try_acquire("x", lease=0)


async def test_an_expired_lock_goes_to_the_next_who_asks(three: Three[ReplicatedLock]) -> None:
    one, two, _ = await three(ReplicatedLock)
    first = await within(one.acquire("x", lease=0.05), "a free lock")
    second = await within(two.acquire("x", lease=3600), "an expired lock")
    assert second.token > first.token
    assert await one.renew(first, lease=1) is None


async def test_one_leads_and_the_next_follows(three: Three[LeaderElection]) -> None:
    one, two, _ = await three(LeaderElection)
    led: list[tuple[str, int]] = []

    async def lead(election: LeaderElection, name: str, until: asyncio.Event) -> None:
        async with election.campaign("service", name) as leadership:
            led.append((name, leadership.token))
            assert leadership.is_held
            await until.wait()

    ends = {"a": asyncio.Event(), "b": asyncio.Event()}
    first = asyncio.ensure_future(lead(one, "a", ends["a"]))
    await eventually(lambda: led, "a leader")
    second = asyncio.ensure_future(lead(two, "b", ends["b"]))
    assert await two.leader("service") == "a"
    ends["a"].set()
    await eventually(lambda: len(led) == 2, "the next leader")
    assert await one.leader("service") == "b"
    assert led[1][1] > led[0][1]
    ends["b"].set()
    await asyncio.gather(first, second)


def entry(command: Any, index: int = 1, time_ms: int = 0) -> Entry[Any]:
    return Entry(index, 1, time_ms, command)


def test_leases_end_by_the_logs_time() -> None:
    machine = LockMachine()
    assert machine.apply(entry(["acquire", "x", "a", 100], 5, 1000))[:3] == [True, "a", 5]
    assert machine.apply(entry(["acquire", "x", "b", 100], 6, 1099))[:3] == [False, "a", 5]
    assert machine.apply(entry(["renew", "x", "b", 100], 7, 1099))[0] is False
    assert machine.apply(entry(["acquire", "x", "b", 100], 8, 1100))[:3] == [True, "b", 8]
    assert machine.apply(entry(["release", "x", "a", 1], 9, 1100))[0] is False


def test_states_go_there_and_back() -> None:
    lock, counter, values = LockMachine(), CounterMachine(), DictMachine()
    lock.apply(entry(["acquire", "x", "a", 100], 5, 1000))
    counter.apply(entry(1 << 70))
    values.apply(entry(["set", "ä", [1]]))
    copies = LockMachine(), CounterMachine(), DictMachine()
    copies[0].restore(bytes_of(lock.snapshot()))()
    copies[1].restore(counter.snapshot())
    encode = values.snapshot()
    values.apply(entry(["set", "b", 1]))
    copies[2].restore(bytes_of(encode))
    assert copies[0].locks == lock.locks
    assert copies[1].total == 1 << 70
    assert copies[2].values == {"ä": [1]}
