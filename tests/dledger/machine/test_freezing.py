"""A state that is taken in pieces: entries wait, the node goes on, the state is of its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dledger import Consistency, Entry, MachineSettings, ReplicatedNode
from dledger.machine import freezing
from dledger.machine.freezing import Freezing
from tests.waiting import eventually, limit, within

from .group import MachineGroup, states
from .test_saving import FILE, PAYLOAD, Lines, lines, write

Group = MachineGroup[str, int]


class Pieces(Lines):
    """Its states have `before` pieces before those of the sums; a turn of the loop takes one.

    Time stands still while turns follow each other, so a test looks at turns and waits for none.
    """

    before = 0
    raises: Exception | None = None
    #: Called with each piece.
    looks: Callable[[Pieces], object] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.turns, self.open = 0, False

    def apply(self, entry: Entry[str]) -> int:
        assert not self.open, "an entry is applied while the state is taken"
        return super().apply(entry)

    def snapshot(self) -> Callable[[], Any]:
        return Freezing(self.pieces(), b"".join)

    def pieces(self) -> Iterator[bytes]:
        self.open = True
        try:
            for _ in range(Pieces.before):
                self.turns += 1
                if Pieces.looks is not None:
                    Pieces.looks(self)
                yield b""
            if Pieces.raises is not None:
                raise Pieces.raises
            state = super().snapshot()
            assert isinstance(state, bytes)
            for begin in range(len(state)):
                yield state[begin : begin + 1]
        finally:
            self.open = False


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Group]:
    monkeypatch.setattr(freezing, "TURN_SECONDS", 0.0)  # a piece in a turn
    made: Group = MachineGroup(tmp_path, new_address, Pieces)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    made.configs = {name: replace(c, **small) for name, c in made.configs.items()}  # type: ignore[arg-type]
    yield made
    await made.close()


def machine(node: ReplicatedNode[str, int]) -> Pieces:
    assert isinstance(node.machine, Pieces)
    return node.machine


async def test_entries_wait_and_the_node_goes_on(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.start()
    node = await group.leader()
    mine, term = machine(node), node.log.driver.replica.node.term
    seen: list[tuple[int, int]] = []
    reads: list[asyncio.Task[int]] = []

    def look(one: Pieces) -> None:
        if one is not mine:
            return
        if one.turns == 10:
            look = node.read(lambda: mine.count, consistency=Consistency.LOCAL)
            reads.append(asyncio.create_task(look))
        seen.append((mine.count, sum(read.done() for read in reads)))

    monkeypatch.setattr(Pieces, "before", 50)
    monkeypatch.setattr(Pieces, "looks", look)
    last = await write(node, 100)
    await eventually(lambda: states(node).last > 0, "a state", 60)
    assert mine.turns >= 50
    first = seen[:50]
    assert len({count for count, _ in first}) == 1, "nothing was applied"
    assert first[-1][1] == 1, "a read was served meanwhile"
    assert reads[0].result() == first[0][0]
    assert last == mine.count == 100
    assert (node.is_leader, node.log.driver.replica.node.term) == (True, term)
    assert all(one.snapshot_error is None for one in group.nodes.values())


async def test_a_state_is_that_of_its_place(group: Group) -> None:
    """A restart begins with it, and applies what is behind it, once."""
    await group.start()
    node = await group.leader()
    count = await write(node, 100)
    name = node.config.node_id
    await eventually(lambda: states(node).last > 0, "a state", 60)
    await group.stop(name)
    await group.start(name)
    again = group.nodes[name]
    assert await within(again.propose("last"), "a result") == count + 1
    assert lines(again).restored == 1
    assert lines(again).applied < count
    assert lines(again).size == count * len(PAYLOAD) + 4


async def test_a_state_by_time_is_taken_without_entries(group: Group) -> None:
    group.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, state_seconds=0.1)
    await group.start()
    node = await group.leader()
    assert await within(node.propose("line"), "a result") == 1

    def has_all() -> bool:
        return states(node).last == node.applied

    await eventually(has_all, "a state of all", 60)
    assert await within(node.propose("more"), "a result") == 2
    await eventually(has_all, "another one", 60)
    assert node.snapshot_error is None


async def test_an_error_of_a_piece_costs_the_state_alone(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pieces, "before", 3)
    monkeypatch.setattr(Pieces, "raises", OSError("no pieces"))
    await group.start()
    node = await group.leader()
    assert await write(node, 100) == 100
    assert "no pieces" in str(node.snapshot_error)
    assert states(node).last < 0
    monkeypatch.setattr(Pieces, "raises", None)
    assert await write(node, 100) == 200
    await eventually(lambda: states(node).last > 0, "a later state", 60)


async def test_a_node_is_closed_while_its_state_is_taken(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.start()
    node = await group.leader()
    name, closing = node.config.node_id, list[asyncio.Task[None]]()

    def look(one: Pieces) -> None:
        if one is machine(node) and not closing:
            closing.append(asyncio.create_task(group.stop(name)))

    monkeypatch.setattr(Pieces, "before", 100_000)
    monkeypatch.setattr(Pieces, "looks", look)
    waiting = [node.propose(PAYLOAD) for _ in range(60)]
    await asyncio.wait(waiting, timeout=limit(60))
    await within(asyncio.gather(*closing), "a close while a state is taken")
    assert closing
    assert machine(node).turns < 100_000
    monkeypatch.setattr(Pieces, "before", 0)
    for future in waiting:
        future.cancelled() or future.exception()
    await group.start(name)
    assert await within(group.nodes[name].propose("more"), "a result") >= 1
