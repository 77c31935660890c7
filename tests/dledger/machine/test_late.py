"""A command that is late says so, and is applied once in all however often it is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dledger import (
    DledgerError,
    Entry,
    Outcome,
    OutcomeUnknown,
    ProposalTimedOut,
    ReplicatedStateMachine,
)
from dledger.core.types import NodeId
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Applier, Found, Results, Told
from dledger.machine.entries import Item, Kind, pack_entry
from dledger.machine.outstanding import LateCommands, Outstanding
from dledger.machine.proposer import Proposer
from tests.waiting import eventually, limit, within

from .group import MachineGroup


class Adder(ReplicatedStateMachine[int, int]):
    """The sum is the result."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, entry: Entry[int]) -> int:
        self.total += entry.command
        return self.total


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str]
) -> AsyncIterator[MachineGroup[int, int]]:
    made = MachineGroup(tmp_path, new_address, Adder)
    await made.start()
    yield made
    await made.close()


async def test_a_late_command_is_asked_for_again_and_applied_once(
    group: MachineGroup[int, int],
) -> None:
    leader = await group.leader()
    assert await within(leader.propose(1), "a result") == 1
    others = [name for name in group.nodes if name != leader.config.node_id]
    for name in others:
        await group.stop(name)
    with pytest.raises(ProposalTimedOut, match="propose_again") as first:
        await within(leader.propose(10, timeout=limit(0.2)), "an error")
    assert (first.value.retriable, first.value.outcome) == (True, Outcome.UNKNOWN)
    with pytest.raises(ProposalTimedOut) as second:
        await within(leader.propose_again(first.value, timeout=limit(0.2)), "an error again")
    with pytest.raises(OutcomeUnknown, match="asked for again"):
        leader.propose_again(first.value)
    await group.start(*others)
    assert await within(leader.propose_again(second.value), "its result") == 11
    assert await within(leader.propose(1), "the next") == 12


async def test_a_result_that_came_late_is_kept_for_who_asks(group: MachineGroup[int, int]) -> None:
    leader = await group.leader()
    assert await within(leader.propose(1), "a result") == 1
    others = [name for name in group.nodes if name != leader.config.node_id]
    for name in others:
        await group.stop(name)
    with pytest.raises(ProposalTimedOut) as late:
        await within(leader.propose(10, timeout=limit(0.2)), "an error")
    await group.start(*others)
    machine = leader.machine
    assert isinstance(machine, Adder)
    await eventually(lambda: machine.total == 11, "the late command", 60)
    assert await within(leader.propose(1), "the next") == 12
    assert await within(leader.propose_again(late.value), "its result") == 11
    assert machine.total == 12


class Alone:
    """A proposer whose log is at hand: what it appends is applied when the test says."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.frames: list[tuple[int, int, list[Item]]] = []
        self.ended: list[object] = []
        self._number = 0
        agreement = Agreement(NodeId("n"), 0, lambda _: None)
        self.applier = Applier(Adder(), agreement, self._told, self._applied, lambda: ("n",))
        self.proposer = Proposer(NodeId("n"), 1, self.applier, self, 1.0, late_max=2)
        self.proposer.led_by(NodeId("n"))

    def _told(self, told: Told) -> None:
        self.proposer.told(told)

    def _applied(self, session: int, results: Results) -> None:
        self.proposer.applied(session, results)

    def append(self, session: int, lowest: int, items: Any, done: Any) -> None:
        self.frames.append((session, lowest, list(items)))

    def forward(self, leader: NodeId, forward: object) -> bool:
        raise AssertionError("it leads itself")

    def new_number(self) -> int:
        self._number += 1
        return self._number

    def propose(self, command: int, now: float) -> None:
        self.proposer.propose(Kind.COMMAND, b"%d" % command, self.done, now + 1)
        self.proposer.flush(now)

    def done(self, result: object, error: DledgerError | None) -> None:
        self.ended.append(error or result)

    def apply_frames(self, time_ms: int = 0) -> None:
        frames, self.frames = self.frames, []
        for session, lowest, items in frames:
            for item in items:
                self.log.append(pack_entry(item, time_ms, session, lowest))
                index = len(self.log)
                self.applier.apply([(index, 1, self.log[-1])], leads=True)

    def late(self, at: int) -> ProposalTimedOut:
        error = self.ended[at]
        assert isinstance(error, ProposalTimedOut)
        return error

    def again(self, error: ProposalTimedOut, now: float) -> None:
        self.proposer.again(error, self.done, now + 1, lambda: False)
        self.proposer.flush(now)


@pytest.fixture
def alone() -> Alone:
    made = Alone()
    made.propose(1, 0.0)
    made.apply_frames()  # opens the session
    made.proposer.flush(0.0)
    made.apply_frames()
    assert made.ended == [1]
    return made


def test_it_holds_the_lowest_number_back_while_it_has_no_result(alone: Alone) -> None:
    alone.propose(10, 0.0)
    lost = alone.frames.pop()
    alone.proposer.tick(1.0)
    alone.propose(100, 1.0)
    assert alone.frames[0][1] == lost[1], "else its session would forget it"
    alone.apply_frames()
    assert alone.ended[2] == 101
    alone.again(alone.late(1), 1.0)
    alone.frames.append(lost)  # the first attempt arrives as well, behind the second
    alone.apply_frames()
    assert alone.ended[3] == 111
    assert alone.applier.machine.apply(Entry(0, 0, 0, 0)) == 111


def test_one_that_was_late_in_a_session_that_is_gone_goes_on_in_the_next(alone: Alone) -> None:
    alone.propose(10, 0.0)
    alone.frames.clear()
    alone.proposer.tick(1.0)
    alone.propose(100, 1.0)
    hour = 3_600_001
    alone.apply_frames(hour)  # the session is gone
    alone.proposer.flush(1.0)
    alone.apply_frames(hour)  # opens another
    alone.proposer.flush(1.0)
    alone.apply_frames(hour)
    assert alone.ended[2] == 101
    alone.again(alone.late(1), 1.0)
    alone.apply_frames(hour)
    assert alone.ended[3] == 111


def test_a_state_that_lost_its_session_leaves_it_unknown(alone: Alone) -> None:
    alone.propose(10, 0.0)
    alone.frames.clear()
    alone.proposer.tick(1.0)
    alone.applier.sessions.expire(3_600_001)
    alone.proposer.state_taken()
    with pytest.raises(OutcomeUnknown):
        alone.again(alone.late(1), 1.0)


def test_few_are_kept_and_none_that_is_far_behind() -> None:
    late = LateCommands(2)
    one = Outstanding(Kind.COMMAND, b"", lambda *_: None, 0.0, lambda: False)
    first, second, third = (late.keep(number, one) for number in (5, 4, 9))
    assert late.take(first) is None
    assert late.lowest(7) == 4
    late.told(4, Found("x"))
    assert late.lowest(7) == 7
    late.forget_below(9)
    assert late.take(second) is None
    assert late.take(third) is third
    assert late.take(third) is None


def test_late_commands_are_kept_up_to_so_many_bytes() -> None:
    """The newest is kept whatever its size; one whose result came counts none."""
    late = LateCommands(100, bytes_max=10)

    def command(size: int) -> Outstanding:
        return Outstanding(Kind.COMMAND, bytes(size), lambda *_: None, 0.0, lambda: False)

    first, second, third = (late.keep(number, command(4)) for number in (1, 2, 3))
    assert late.take(first) is None, "12 bytes were too many"
    late.told(2, Found("x"))
    fourth = late.keep(4, command(6))
    assert late.take(second) is second
    assert late.take(third) is third
    fifth = late.keep(5, command(11))
    assert late.take(fourth) is None
    sixth = late.keep(6, command(1))
    assert late.take(fifth) is None
    late.drop(sixth)
    seventh, eighth = late.keep(7, command(5)), late.keep(8, command(5))
    assert late.take(seventh) is seventh
    assert late.take(eighth) is eighth
