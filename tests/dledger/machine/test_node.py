"""Commands from any node, applied once on every node, with their results; what ends a node."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dledger import (
    CommandRefused,
    Consistency,
    Entry,
    EntryTooLarge,
    LogUsageError,
    NodeFailed,
    NotLeader,
    Outcome,
    OutcomeUnknown,
    ReplicatedNode,
    ReplicatedStateMachine,
    StateMachineDiverged,
    StateMachineFailed,
)
from dledger.machine.leading import Leading
from dledger.machine.state_machine import NESTED_MAX
from tests.waiting import eventually, limit, within

from .group import MachineGroup


@dataclass
class Adder(ReplicatedStateMachine[int, int]):
    """Adds; what it has applied is kept in order."""

    total: int = 0
    applied: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def apply(self, entry: Entry[int]) -> int:
        if entry.command == 13:
            raise CommandRefused("thirteen is refused; add another number")
        self.total += entry.command
        self.applied.append(entry.command)
        self.times.append(entry.time_ms)
        return self.total


Adders = MachineGroup[int, int]
MakeGroup = Callable[..., Any]


@pytest_asyncio.fixture
async def make_group(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[MakeGroup]:
    made: list[MachineGroup[Any, Any]] = []

    def make(
        machine: Callable[[], ReplicatedStateMachine[Any, Any]] = Adder, size: int = 3
    ) -> MachineGroup[Any, Any]:
        made.append(MachineGroup(tmp_path, new_address, machine, size))
        return made[-1]

    yield make
    for group in made:
        await group.close()


def adder(node: ReplicatedNode[int, int]) -> Adder:
    assert isinstance(node.machine, Adder)
    return node.machine


async def test_any_node_takes_commands_and_gives_their_results(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start()
    results = []
    for node in group.nodes.values():
        results.append(await within(node.propose(5), "a result"))
    assert results == [5, 10, 15]
    for node in group.nodes.values():
        assert await node.read(lambda node=node: adder(node).total) == 15  # type: ignore[misc]
        assert adder(node).times == sorted(adder(node).times)
        assert adder(node).times[0] > 1_600_000_000_000


async def test_many_commands_of_a_follower_are_applied_once_and_in_order(
    make_group: MakeGroup,
) -> None:
    group: Adders = make_group()
    await group.start()
    node = await group.follower()
    numbers = [n for n in range(1, 3001) if n != 13]
    results = await within(asyncio.gather(*map(node.propose, numbers)), "results")
    assert results == [sum(n for n in numbers if n <= last) for last in numbers]
    assert adder(node).applied == numbers


async def test_a_refusal_of_the_machine_is_the_result(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start()
    for node in group.nodes.values():
        with pytest.raises(CommandRefused, match="thirteen is refused") as refused:
            await node.propose(13)
        assert (refused.value.retriable, refused.value.outcome) == (False, Outcome.NOT_DONE)
    assert adder(await group.leader()).total == 0


async def test_commands_outlive_the_leader(make_group: MakeGroup) -> None:
    """Proposed while the leader goes: each is applied once, at the next one."""
    group: Adders = make_group()
    await group.start()
    leader = await group.leader()
    node = await group.follower()
    await node.propose(1)
    first = [node.propose(n) for n in range(100, 200)]
    closing = asyncio.create_task(group.stop(leader.config.node_id))
    later = [node.propose(n) for n in range(200, 300)]
    await within(asyncio.gather(*first, *later), "results from the next leader")
    await closing
    assert sorted(adder(node).applied) == [1, *range(100, 300)]


async def test_what_is_repeated_is_applied_once(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader's filter is taken away, and every frame is sent three times."""
    group: Adders = make_group()
    await group.start()
    node, leader = await group.follower(), await group.leader()
    monkeypatch.setattr(Leading, "_new", lambda _, session, items: items)
    transport = node.log.driver.transport
    send = transport.forward
    monkeypatch.setattr(transport, "forward", lambda *a: send(*a) and send(*a) and send(*a))
    results = [await within(node.propose(1), "a result") for _ in range(20)]
    assert results == list(range(1, 21))
    end = leader.log.store.last.index
    await within(node.log.wait(end), "what was sent thrice")
    assert end > 50
    assert adder(node).total == 20


async def test_a_restart_applies_the_same_again(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start()
    node = await group.follower()
    name = node.config.node_id
    for _ in range(10):
        await node.propose(2)
    times = adder(node).times
    await group.stop(name)
    await group.start(name)
    again = group.nodes[name]
    assert await within(again.propose(3), "a result after the restart") == 23
    assert adder(again).times[:10] == times


async def test_the_outcome_says_whether_it_may_have_been_taken(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start("n0")
    with pytest.raises(NotLeader) as none:
        await within(group.nodes["n0"].propose(1, timeout=limit(0.3)), "an error")
    assert (none.value.retriable, none.value.outcome) == (True, Outcome.NOT_DONE)
    await group.start("n1", "n2")
    leader = await group.leader()
    await leader.propose(1)
    for name in [name for name in group.nodes if name != leader.config.node_id]:
        await group.stop(name)
    with pytest.raises(OutcomeUnknown) as unknown:
        await within(leader.propose(1, timeout=limit(0.3)), "an error")
    assert unknown.value.outcome is Outcome.UNKNOWN


async def test_close_ends_what_waits(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start("n0")
    node = group.nodes["n0"]
    waiting = node.propose(1)
    await node.close()
    with pytest.raises(NodeFailed, match="closed"):
        await waiting
    with pytest.raises(NodeFailed):
        node.propose(1)


async def test_a_command_over_the_limit_or_without_bytes(make_group: MakeGroup) -> None:
    class Texts(ReplicatedStateMachine[object, int]):
        def apply(self, entry: Entry[object]) -> int:
            return len(str(entry.command))

    group: MachineGroup[object, int] = make_group(Texts)
    await group.start()
    for node in group.nodes.values():
        with pytest.raises(EntryTooLarge, match="a command has"):
            node.propose("x" * (1 << 20))
        with pytest.raises(LogUsageError, match="no bytes"):
            node.propose({1, 2})
        assert await node.propose("x" * 100_000) == 100_000


def nested(depth: int) -> object:
    found: object = '"[{' * 200
    for at in range(depth):
        found = {"[": found} if at % 2 else [found, 0]
    return found


async def test_a_command_that_is_nested_too_deeply_stops_no_node(make_group: MakeGroup) -> None:
    """Whether one of 900 lists in each other can be read is up to the calls around `decode`."""

    class Kept(ReplicatedStateMachine[object, object]):
        def apply(self, entry: Entry[object]) -> object:
            return copy.deepcopy(entry.command)

    group: MachineGroup[object, object] = make_group(Kept)
    await group.start()
    for node in group.nodes.values():
        for depth in (NESTED_MAX + 1, 400, *range(900, 1000), 100_000):
            with pytest.raises(LogUsageError, match=r"lists and objects|recursion"):
                node.propose(nested(depth))
        assert await node.propose(nested(NESTED_MAX)) == nested(NESTED_MAX)
        wide = [nested(3) for _ in range(NESTED_MAX)]
        assert await node.propose(wide) == wide
        assert node.failure is None


async def test_a_machine_that_raises_stops_its_node_at_the_entry(make_group: MakeGroup) -> None:
    class Raises(Adder):
        def apply(self, entry: Entry[int]) -> int:
            if entry.command == 7:
                raise KeyError("seven")
            return super().apply(entry)

    group: Adders = make_group(Raises)
    await group.start()
    node = await group.leader()  # the last of three never hears that the entry is committed
    await node.propose(1)
    index = node.applied + 1
    with pytest.raises((StateMachineFailed, OutcomeUnknown)):
        await within(node.propose(7), "an error")
    await eventually(lambda: node.failure is not None, "the node's end")
    assert isinstance(node.failure, StateMachineFailed)
    assert node.failure.index == index
    assert "KeyError: 'seven'" in str(node.failure)
    with pytest.raises(StateMachineFailed):
        node.propose(1)


async def test_a_result_without_bytes_is_a_failure_of_the_machine(make_group: MakeGroup) -> None:
    class Sets(ReplicatedStateMachine[int, object]):
        def apply(self, entry: Entry[int]) -> object:
            return {entry.command}

    group: MachineGroup[int, object] = make_group(Sets, 1)
    await group.start()
    node = group.nodes["n0"]
    with pytest.raises((StateMachineFailed, OutcomeUnknown)):
        await within(node.propose(7), "an error")
    assert isinstance(node.failure, StateMachineFailed)
    assert "no bytes" in str(node.failure)


async def test_the_node_whose_results_differ_stops_and_says_where(make_group: MakeGroup) -> None:
    """One of three adds one too many, once; the two others go on."""
    made: list[Adder] = []

    class Compared(Adder):
        compare_every = 50

        def __init__(self) -> None:
            super().__init__()
            self.wrong = len(made) == 1
            made.append(self)

        def apply(self, entry: Entry[int]) -> int:
            if self.wrong and entry.command == 77:
                self.total += 1
            return super().apply(entry)

    group: Adders = make_group(Compared)
    await group.start()
    wrong, right = group.nodes["n1"], group.nodes["n0"]
    await right.propose(1)
    await right.propose(77)
    index = right.applied

    async def stops() -> object:
        await right.propose(0)
        return wrong.failure

    await eventually(stops, "the end of the node that differs")
    assert isinstance(wrong.failure, StateMachineDiverged)
    assert wrong.failure.index == index
    assert await within(right.propose(0), "a result of the others") == 78
    assert right.failure is None


async def test_the_node_whose_state_rots_stops_although_its_results_agree(
    make_group: MakeGroup,
) -> None:
    class Silent(Adder):
        """Says nothing of its total; the checksum does."""

        compare_every = 50

        def apply(self, entry: Entry[int]) -> int:
            super().apply(entry)
            return 0

        def checksum(self) -> int:
            return self.total

    group: Adders = make_group(Silent)
    await group.start()
    rotten, right = group.nodes["n1"], group.nodes["n0"]
    await right.propose(1)
    state = rotten.machine
    assert isinstance(state, Silent)
    await eventually(lambda: state.total == 1, "an entry that is applied")
    state.total ^= 2
    index = rotten.applied

    async def stops() -> object:
        await right.propose(0)
        return rotten.failure

    await eventually(stops, "the end of the node whose state differs")
    assert isinstance(rotten.failure, StateMachineDiverged)
    assert (rotten.failure.index + 1) % 50 == 0
    assert rotten.failure.index >= index
    assert "the state differs behind entry" in str(rotten.failure)
    assert await within(right.propose(0), "a result of the others") == 0
    assert right.failure is None


async def test_a_batch_at_a_time(make_group: MakeGroup) -> None:
    class Batches(Adder):
        def apply_batch(self, entries: Any) -> list[int | CommandRefused]:
            sizes.append(len(entries))
            return list(super().apply_batch(entries))

    sizes: list[int] = []
    group: Adders = make_group(Batches, 1)
    await group.start()
    node = group.nodes["n0"]
    results = await within(asyncio.gather(*[node.propose(1) for _ in range(500)]), "results")
    assert results == list(range(1, 501))
    assert max(sizes) > 50


async def test_a_given_up_command_costs_nothing(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start()
    node = await group.follower()
    given_up = node.propose(1)
    given_up.cancel()
    assert await within(node.propose(2), "a result") in (2, 3)
    await eventually(lambda: not node.status().proposed, "an empty table")


async def test_reads(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start()
    node, leader = await group.follower(), await group.leader()
    await leader.propose(4)
    assert await node.read(lambda: adder(node).total) == 4
    await leader.propose(1)
    assert await node.read(lambda: adder(node).total, staleness=60.0) in (4, 5)
    for name in [name for name in group.nodes if name != node.config.node_id]:
        await group.stop(name)
    seen = adder(node).total
    assert await node.read(lambda: adder(node).total, consistency=Consistency.LOCAL) == seen

    async def reads_on() -> bool:
        await within(node.read(lambda: 1, timeout=0.0), "an answer")
        return False

    with pytest.raises(NotLeader):
        await eventually(reads_on, "no leader")
    waiting = asyncio.ensure_future(node.read(lambda: adder(node).total, timeout=limit(60)))
    await eventually(lambda: node.leader is None, "a node that knows no leader")
    assert not waiting.done()
    await group.start(leader.config.node_id)
    assert await within(waiting, "a read behind the election") == 5


async def test_a_read_waits_out_an_election(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start("n0")
    node = group.nodes["n0"]
    with pytest.raises(NotLeader) as none:
        await within(node.read(lambda: 1, timeout=limit(0.3)), "an error")
    assert none.value.retriable
    waiting = asyncio.ensure_future(node.read(lambda: adder(node).total, timeout=limit(60)))
    await group.start("n1")
    assert await within(waiting, "a read behind the election") == 0


async def test_a_read_that_waits_for_a_leader_ends_with_its_node(make_group: MakeGroup) -> None:
    group: Adders = make_group()
    await group.start("n0")
    node = group.nodes["n0"]
    waiting = asyncio.ensure_future(node.read(lambda: 1))
    await eventually(lambda: node.leader is None, "a node that knows no leader")
    await node.close()
    with pytest.raises(NodeFailed):
        await within(waiting, "the end of a read")
