"""The leader, the members and errors of a node are followed by functions and by loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio

from dledger import (
    DledgerError,
    Entry,
    NodeFailed,
    ReplicatedStateMachine,
    SnapshotFailed,
    StateMachineFailed,
)
from dledger.machine.changes import Changes
from tests.waiting import eventually, within

from .group import MachineGroup

T = TypeVar("T")


class Fragile(ReplicatedStateMachine[int, int]):
    def apply(self, entry: Entry[int]) -> int:
        if entry.command == 13:
            raise ZeroDivisionError("thirteen")
        return entry.command


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str]
) -> AsyncIterator[MachineGroup[int, int]]:
    made = MachineGroup(tmp_path, new_address, Fragile)
    await made.start()
    yield made
    await made.close()


async def test_a_loop_and_a_function_see_the_next_leader(group: MachineGroup[int, int]) -> None:
    leader = await group.leader()
    node = await group.follower()
    told: list[str | None] = []
    stop = node.leader_changes.subscribe(told.append)
    assert node.leader_changes.value == leader.config.node_id

    async def another() -> str:
        async for name in node.leader_changes:
            if name not in (None, leader.config.node_id):
                return name
        raise AssertionError("a loop over changes has no end of its own")

    looking = asyncio.ensure_future(another())
    await group.stop(leader.config.node_id)
    found = await within(looking, "the next leader")
    assert told[-1] == found
    assert found in group.nodes
    stop()
    assert not node.leader_changes._functions


async def test_members_are_told_of(group: MachineGroup[int, int]) -> None:
    leader = await group.leader()
    node = await group.follower()
    assert {member.node_id for member in node.member_changes.value} == {"n0", "n1", "n2"}
    await within(node.propose(1), "an entry of the leader's term")
    gone = next(name for name in group.nodes if group.nodes[name] not in (leader, node))
    told: list[int] = []
    node.member_changes.subscribe(lambda members: told.append(len(members)))
    await within(leader.log.remove_member(gone), "a member less")
    await eventually(lambda: told == [2], "the change at a follower")


async def test_on_error_is_told_why_a_node_stopped(group: MachineGroup[int, int]) -> None:
    """The leader: a follower may never hear that what its leader dies of is committed."""
    node = await group.leader()
    told: list[DledgerError] = []
    node.on_error(told.append)
    looking = asyncio.ensure_future(anext(_second(node.member_changes)))
    with pytest.raises(DledgerError):
        await within(node.propose(13), "an error")
    await eventually(lambda: told, "the reason")
    assert isinstance(told[0], StateMachineFailed)
    with pytest.raises(StateMachineFailed):
        await within(looking, "the end of the loop")


async def test_on_error_says_nothing_of_a_node_that_was_closed(
    group: MachineGroup[int, int],
) -> None:
    node = await group.follower()
    told: list[DledgerError] = []
    node.on_error(told.append)
    looking = asyncio.ensure_future(anext(_second(node.member_changes)))
    await group.stop(node.config.node_id)
    with pytest.raises(NodeFailed, match="closed"):
        await within(looking, "the end of the loop")
    assert not told


async def test_on_error_is_told_of_a_state_that_was_not_written(
    group: MachineGroup[int, int],
) -> None:
    node = await group.follower()
    told: list[DledgerError] = []
    node.on_error(told.append)
    error = SnapshotFailed("no room")
    node._snapshot_failed(error)
    assert told == [error]
    assert node.failure is None


async def _second(changes: Changes[T]) -> AsyncIterator[T]:
    seen = False
    async for value in changes:
        if seen:
            yield value
        seen = True


def test_a_function_that_raises_harms_no_other() -> None:
    spared: list[str] = []
    changes: Changes[int] = Changes(0, "the number", spared.append)
    told: list[int] = []
    changes.subscribe(lambda value: 1 // 0)
    changes.subscribe(told.append)
    changes.tell(0)
    changes.tell(5)
    assert (told, changes.value, len(spared)) == ([5], 5, 1)
