"""A machine that takes long is told of in the log; proposals that outrun it are refused."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import Entry, Outcome, QueueFull, ReplicatedStateMachine
from dledger.machine import proposer
from tests.waiting import eventually, within

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
    time = node._owned.time

    def move(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(node._owned, "time", lambda: time() + ahead)
    monkeypatch.setattr(Slow, "clock_moved", staticmethod(move))
    with caplog.at_level(logging.WARNING, "dledger.machine.applying"):
        quick = await within(node.propose(0), "a result")
        assert not caplog.records
        slow = await within(node.propose(5), "a result")
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"took 5.00 s for entries {slow} to {slow}; while it runs the node is silent" in told
    assert slow > quick


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
    await eventually(lambda: node._proposer.waiting_count == 0, "room")
    assert await within(node.propose(0), "a result") > results[-1]
