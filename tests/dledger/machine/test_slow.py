"""A machine that takes long is told of; proposals that outrun it are refused, and bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import (
    Entry,
    MachineBehind,
    MachineSettings,
    Outcome,
    QueueFull,
    ReplicatedStateMachine,
    SlowApply,
)
from dledger.machine import entries, proposer
from dledger.runtime import turns
from dledger.runtime.metrics import metrics_of
from tests.waiting import eventually, limit, within

from .group import MachineGroup


class Slow(ReplicatedStateMachine[int, int]):
    """Takes as many seconds of the loop's clock as the command says."""

    clock_moved: Callable[[float], None] = staticmethod(lambda seconds: None)

    def apply(self, entry: Entry[int]) -> int:
        self.clock_moved(entry.command)
        return entry.index


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str]
) -> AsyncIterator[MachineGroup[int, int]]:
    made = MachineGroup(tmp_path, new_address, Slow, 1)
    await made.start()
    yield made
    await made.close()


async def test_a_slow_apply_is_told_with_its_entries(
    group: MachineGroup[int, int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await group.leader()
    ahead = 0.0
    time = node.log.owned.time

    def move(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(node.log.owned, "time", lambda: time() + ahead)
    monkeypatch.setattr(Slow, "clock_moved", staticmethod(move))
    followed: list[SlowApply | None] = []
    node.slow_applies.subscribe(followed.append)
    with caplog.at_level(logging.WARNING, "dledger.machine.applying"):
        quick = await within(node.propose(0), "a result")
        assert not caplog.records
        slow = await within(node.propose(5), "a result")
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"took 5.00 s for entries {slow} to {slow}; while it runs the node is silent" in told
    assert slow > quick
    (event,) = followed
    assert event is not None
    assert (event.first, event.last, event.waiting) == (slow, slow, 0)
    assert 5 <= event.seconds < 6
    assert node.slow_applies.value == event
    numbers = {one.name: one.value for one in metrics_of(node.log)}
    assert 5 <= numbers["dledger_embedded_apply_seconds_total"] < 10
    assert numbers["dledger_embedded_apply_waiting"] == 0


async def test_commands_that_outrun_the_machine_are_refused_and_none_is_lost(
    group: MachineGroup[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposer, "OUTSTANDING_MAX", 10)
    node = await group.leader()
    taken = [node.propose(0) for _ in range(10)]
    with pytest.raises(QueueFull, match="pause and try again") as full:
        node.propose(0)
    assert (full.value.retriable, full.value.outcome) == (True, Outcome.NOT_DONE)
    results = [await within(one, "a result") for one in taken]
    assert results == sorted(set(results))
    await eventually(lambda: node.status().proposed == 0, "room")
    assert await within(node.propose(0), "a result") > results[-1]


class Turns:
    """The turns of applying, held until `release`: what is committed waits, whatever the speed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def hold(self) -> None:
        self._monkeypatch.setattr(turns.Turns, "_left", lambda _: 0.0)

    def release(self) -> None:
        self._monkeypatch.setattr(turns.Turns, "_left", lambda _: 1e-9)  # one entry each


async def behind(
    group: MachineGroup[int, int], held: Turns, settings: MachineSettings
) -> list[asyncio.Future[int]]:
    """Of 1,000 commands all that a node takes are committed, and none is applied."""
    await group.stop("n0")
    group.settings = settings
    await group.start("n0")
    node = await group.leader()
    await within(node.propose(0), "a session")
    held.hold()
    taken = [node.propose(0) for _ in range(1000)]
    await eventually(lambda: node.status().refusal is not None, "a backlog")
    return taken


@pytest.mark.parametrize("limits", [{"apply_waiting_max": 50}, {"apply_waiting_bytes_max": 5000}])
async def test_a_leader_whose_machine_is_behind_takes_no_more(
    group: MachineGroup[int, int], monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    monkeypatch.setattr(entries, "COMMANDS_MAX", 1)
    held = Turns(monkeypatch)
    taken = await behind(group, held, replace(group.settings, **limits))  # type: ignore[arg-type]
    node = group.nodes["n0"]
    numbers = {one.name: one.value for one in metrics_of(node.log)}
    assert numbers["dledger_embedded_apply_waiting"] == node.status().apply_waiting > 50
    end = node.log.store.last.index
    with pytest.raises(MachineBehind, match=r"committed entries of .* to apply") as refused:
        await node.propose(0, timeout=limit(0.001))
    assert (refused.value.retriable, refused.value.outcome) == (True, Outcome.NOT_DONE)
    assert node.log.store.last.index == end, "it was not appended"
    waited = node.propose(0)  # its time is longer than the backlog
    held.release()
    assert await within(waited, "a result") > await within(taken[-1], "a result")
    await eventually(lambda: node.status().apply_waiting == 0, "no backlog")


async def test_the_bytes_of_commands_that_wait_are_bounded(group: MachineGroup[int, int]) -> None:
    await group.stop("n0")
    group.settings = replace(group.settings, proposed_bytes_max=3)
    await group.start("n0")
    node = await group.leader()
    taken = [node.propose(0) for _ in range(3)]
    with pytest.raises(QueueFull, match="raise proposed_bytes_max"):
        node.propose(0)
    for one in taken:
        await within(one, "a result")
    given_up = node.propose(100)  # as many bytes; one that waits for nobody
    with pytest.raises(QueueFull):
        node.propose(0)
    given_up.cancel()
    await eventually(lambda: node.status().proposed == 0, "room")
    assert node.status().proposed_bytes == 0
    assert await within(node.propose(10**6), "one command in any case") > 0
