"""A start applies a whole log, and the loop does all else meanwhile: by bytes and by time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dledger import Entry, ReplicatedStateMachine
from dledger.core.types import Index
from dledger.log.cold import ColdReader
from dledger.machine import applying, entries
from dledger.replica import apply_pace
from dledger.runtime.owned import Owned
from dledger.runtime.turns import TURN_SECONDS, Share
from tests.waiting import eventually, within

from .group import MachineGroup

LARGE = "x" * 700_000


class Turns(ReplicatedStateMachine[str, int]):
    """Counts bytes and commands by the turn of the loop that applied them."""

    turn = 0

    def __init__(self) -> None:
        self.sizes: Counter[int] = Counter()
        self.counts: Counter[int] = Counter()

    def apply(self, entry: Entry[str]) -> int:
        self.sizes[Turns.turn] += len(entry.command)
        self.counts[Turns.turn] += 1
        return self.counts.total()


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str]
) -> AsyncIterator[MachineGroup[str, int]]:
    made = MachineGroup(tmp_path, new_address, Turns, 1)
    await made.start()
    yield made
    await made.close()


async def replayed(group: MachineGroup[str, int], commands: list[str]) -> Turns:
    """The machine of a node that has started again behind these commands."""
    node = await group.leader()
    for command in commands:
        await within(node.propose(command), "a result")
    await group.stop("n0")

    async def count_turns() -> None:
        while True:  # until it is cancelled
            Turns.turn += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    await group.start("n0")
    machine = group.nodes["n0"].machine
    assert isinstance(machine, Turns)
    await eventually(lambda: machine.counts.total() == len(commands), "all commands again", 60)
    counting.cancel()
    return machine


async def test_large_entries_are_applied_few_a_turn(group: MachineGroup[str, int]) -> None:
    machine = await replayed(group, [LARGE] * 24)
    assert max(machine.sizes.values()) <= apply_pace.BYTES_AT_ONCE
    assert len(machine.sizes) >= 24 * len(LARGE) // apply_pace.BYTES_AT_ONCE


async def test_a_slow_machine_applies_few_entries_a_turn(
    group: MachineGroup[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command takes a turn's time by the node's clock, which a busy machine does not move."""
    ahead = 0.0
    apply, time = Turns.apply, Owned.time

    def slowly(machine: Turns, entry: Entry[str]) -> int:
        nonlocal ahead
        ahead += 1.01 * TURN_SECONDS
        return apply(machine, entry)

    def noted(cold: ColdReader, *where: Any) -> Any:
        nonlocal count_read
        piece = read(cold, *where)
        count_read += piece.checked.tail.id.index - where[0] + 1
        return piece

    count_read, read = 0, ColdReader.read
    monkeypatch.setattr(Turns, "apply", slowly)
    monkeypatch.setattr(ColdReader, "read", noted)
    monkeypatch.setattr(Owned, "time", lambda self: time(self) + ahead)
    machine = await replayed(group, ["x"] * 200)
    counts = [machine.counts[turn] for turn in sorted(machine.counts)]
    assert counts[0] <= applying.PIECE_FIRST, "before anything is known of it"
    assert max(counts) <= 1, "also where an event of the log comes in the turn"
    assert count_read <= 5 * 200, "no turn reads what only later ones apply"


async def test_entries_of_several_commands_do_not_make_a_turn_long(
    group: MachineGroup[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece that had grown to 512 entries of one command each would be 32,768 of these."""
    shared = 1
    monkeypatch.setattr(applying.Applying, "shared_max", lambda self: shared)
    await group.stop("n0")
    await group.start("n0")
    node = await group.leader()
    for _ in range(3):  # alone in their entries
        await within(asyncio.gather(*(node.propose("x") for _ in range(800))), "results")
    shared = entries.COMMANDS_MAX
    for _ in range(8):
        await within(asyncio.gather(*(node.propose("x") for _ in range(1600))), "results")
    applied = node.applied
    assert 2400 < applied < 3000, "most of 12,800 commands share entries"
    await group.stop("n0")

    ahead, seconds = 0.0, list[float]()
    apply, turn = Turns.apply, applying.Applying.apply

    def measured(self: applying.Applying, *arguments: Any) -> Index:
        begun = self.time()
        try:
            return turn(self, *arguments)
        finally:
            seconds.append(self.time() - begun)

    def slowly(machine: Turns, entry: Entry[str]) -> int:
        nonlocal ahead
        ahead += 0.0001
        return apply(machine, entry)

    monkeypatch.setattr(Turns, "apply", slowly)
    monkeypatch.setattr(Owned, "time", lambda self: ahead)
    monkeypatch.setattr(applying.Applying, "apply", measured)
    await group.start("n0")
    await eventually(lambda: group.nodes["n0"].applied >= applied, "all commands again", 60)
    assert ahead > 1.5
    assert max(seconds) < 1.2 * TURN_SECONDS


async def test_entries_that_have_to_wait_are_not_applied(
    group: MachineGroup[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other groups of the host have the turns meanwhile."""
    node = await group.leader()
    assert await within(node.propose("x"), "a result") == 1
    ask, asked = Share.ask, 0

    def refused(share: Share) -> float:
        nonlocal asked
        asked += 1
        return 0.0

    monkeypatch.setattr(Share, "ask", refused)
    results = [node.propose("y") for _ in range(3)]
    await eventually(lambda: asked > 20, "a few turns")
    assert node.log.applied == node.applied < node.log.status().node.commit
    assert not any(result.done() for result in results)
    monkeypatch.setattr(Share, "ask", ask)
    assert [await within(result, "a result") for result in results] == [2, 3, 4]


async def test_a_small_part_of_a_turn_is_kept_to(
    group: MachineGroup[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a machine that has had whole turns, so that its pieces have grown."""
    monkeypatch.setattr(applying, "COMMANDS_MAX", 1)
    node = await group.leader()
    ahead, seconds = 0.0, list[float]()
    apply, turn, time = Turns.apply, applying.Applying.apply, Owned.time

    def slowly(machine: Turns, entry: Entry[str]) -> int:
        nonlocal ahead
        ahead += 0.0001
        return apply(machine, entry)

    def measured(self: applying.Applying, *arguments: Any) -> Index:
        begun = ahead
        try:
            return turn(self, *arguments)
        finally:
            seconds.append(ahead - begun)

    def part(share: Share) -> float:
        share.seconds = 0.002
        return share.seconds

    monkeypatch.setattr(Turns, "apply", slowly)
    monkeypatch.setattr(Owned, "time", lambda self: time(self) + ahead)
    monkeypatch.setattr(applying.Applying, "time", lambda self: ahead)
    monkeypatch.setattr(applying.Applying, "apply", measured)
    await within(asyncio.gather(*(node.propose("x") for _ in range(2000))), "results")
    assert max(seconds) > 0.03
    seconds.clear()
    monkeypatch.setattr(Share, "ask", part)
    results = await within(asyncio.gather(*(node.propose("x") for _ in range(500))), "results")
    assert results == list(range(2001, 2501))
    assert max(seconds) <= 0.002 + 2 * 0.0001
