"""Kept results are bounded by bytes, alike on every node; a peer without a machine says so."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from commitlog.files.system import Buffer
from dledger import (
    Entry,
    NoMachine,
    Outcome,
    ReplicatedLog,
    ReplicatedStateMachine,
    ResultNotKept,
    StateMachineFailed,
)
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Applier, Found, Results
from dledger.machine.entries import Kind, pack_entry
from dledger.machine.sessions import NOT_KEPT, RESULT_OVERHEAD, Sessions, Verdict
from dledger.wire.forwards import (
    Asker,
    Forward,
    ForwardReason,
    ForwardReply,
    no_machine,
    pack_forward,
    unpack_reply,
)
from dledger.wire.frames import Frame, FrameDecoder
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, within

from .group import MachineGroup


class Repeater(ReplicatedStateMachine[int, str]):
    """A result of as many letters as the command says; how many were applied is the state."""

    result_bytes_max = 1000
    results_bytes_max = 20_000

    def __init__(self) -> None:
        self.applied = 0

    def apply(self, entry: Entry[int]) -> str:
        self.applied += 1
        return "x" * entry.command

    def snapshot(self) -> bytes:
        return b"%d" % self.applied

    def restore(self, state: bytes) -> None:
        self.applied = int(state)


def make_applier(told: list[object]) -> Applier[int, str]:
    def applied(session: int, results: Results) -> None:
        told.extend((session, sequence, repr(result)) for sequence, result in results)

    agreement = Agreement("n", 0, lambda _: None)
    return Applier(Repeater(), agreement, told.append, applied, lambda: ("n",))


def history(seed: int, count: int = 1500) -> Iterator[tuple[int, int, bytes]]:
    """Four sessions whose commands have results of up to 1,200 bytes; some come twice."""
    draw = random.Random(seed)
    sequences = dict.fromkeys(range(4), 0)
    for index in range(count):
        if index < 4:
            yield index, 1, pack_entry((Kind.OPEN, index, b""), index, 0, 0)
            continue
        session = draw.randrange(4)
        sequences[session] += draw.random() < 0.9
        sequence = sequences[session]
        item = (Kind.COMMAND, sequence, b"%d" % draw.randrange(1200))
        lowest = max(0, sequence - draw.randrange(200))
        yield index, 1, pack_entry(item, index, session, lowest)


def test_batches_make_no_difference_to_what_is_kept() -> None:
    """One takes entries singly, one in drawn pieces, one is restored again and again."""
    entries = list(history(3))
    told: list[list[object]] = [[], [], []]
    single, pieces, restored = (make_applier(into) for into in told)
    draw = random.Random(4)
    at, given_up = 0, False
    while at < len(entries):
        end = min(len(entries), at + draw.randrange(1, 150))
        for entry in entries[at:end]:
            single.apply([entry], leads=False)
        for applier in (pieces, restored):
            applier.apply(entries[at:end], leads=False)
        assert single.head() == pieces.head() == restored.head()
        given_up = given_up or NOT_KEPT in single.head()
        assert single.sessions.results_bytes == sum(
            session.size for session in single.sessions._sessions.values()
        )
        state = single.head() + single.machine.snapshot()  # type: ignore[operator]
        restored = make_applier(told[2])
        restored.load(state, single.applied)
        at = end
    assert given_up, "the history is too small for its bounds"
    assert repr(told[0]) == repr(told[1]) == repr(told[2])
    assert len(told[0]) > 1000, "each command that is applied is told"
    assert single.sessions.results_bytes < 20_000 + 64 * 1100


class Times(Repeater):
    """The log's time of each entry."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def apply(self, entry: Entry[int]) -> str:
        self.seen.append(entry.time_ms)
        return super().apply(entry)


def test_the_logs_time_does_not_go_back_behind_a_restored_state() -> None:
    """A leader with a late clock follows: leases end alike where a state was restored or not."""

    def command(index: int, time_ms: int) -> tuple[int, int, bytes]:
        item = (Kind.COMMAND, index, b"1")
        return index, 1, pack_entry(item, time_ms, 0, 1)

    whole, restored = (
        Applier(
            Times(),
            Agreement("n", 0, lambda _: None),
            lambda _: None,
            lambda *_: None,
            lambda: ("n",),
        )
        for _ in range(2)
    )
    opened = 0, 1, pack_entry((Kind.OPEN, 0, b""), 1000, 0, 0)
    whole.apply([opened, command(1, 5000)], leads=False)
    restored.load(whole.head() + whole.machine.snapshot(), whole.applied)
    for applier in (whole, restored):
        applier.apply([command(2, 2000), command(3, 6000)], leads=False)
        assert applier.machine.seen[-2:] == [5000, 6000]


def test_results_go_before_sessions_and_the_idle_first() -> None:
    sessions = Sessions(results_bytes_max=1200 + 4 * RESULT_OVERHEAD)
    for session in (1, 2):
        sessions.open(session, 0)
        for sequence in (1, 2):
            assert sessions.admit(session, sequence, 1, 0) is Verdict.APPLY
            sessions.keep(session, [sequence], [b"r" * 300])
    sessions.shrink()
    assert sessions.result(1, 1) == b"r" * 300
    sessions.admit(2, 3, 1, 0)
    sessions.keep(2, [3], [b"r" * 500])
    sessions.shrink()
    assert [sessions.result(1, at) for at in (1, 2)] == [NOT_KEPT] * 2
    assert sessions.result(2, 3) == b"r" * 500
    assert sessions.admit(1, 1, 1, 0) is Verdict.DUPLICATE, "that it was applied stays known"
    for sequence in range(4, 20):
        sessions.admit(2, sequence, 1, 0)
        sessions.keep(2, [sequence], [b"r"])
    sessions.shrink()
    assert 1 not in sessions
    assert sessions.admit(1, 1, 1, 0) is Verdict.NO_SESSION
    assert sessions.admit(2, 4, 1, 0) is Verdict.DUPLICATE


def test_a_state_names_a_result_that_was_given_up() -> None:
    applier = make_applier([])
    applier.apply(
        [
            (0, 1, pack_entry((Kind.OPEN, 0, b""), 0, 0, 0)),
            (1, 1, pack_entry((Kind.COMMAND, 1, b"5000"), 0, 0, 1)),
        ],
        leads=False,
    )
    found = applier.result_of(0, 1)
    assert isinstance(found, Found)
    assert isinstance(found.result, ResultNotKept)


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str]
) -> AsyncIterator[MachineGroup[int, str]]:
    made = MachineGroup(tmp_path, new_address, Repeater)
    yield made
    await made.close()


async def test_a_result_over_the_limit_is_named_and_its_command_applied_once(
    group: MachineGroup[int, str],
) -> None:
    await group.start()
    for node in group.nodes.values():
        assert await within(node.propose(998 - 3), "a result that fits") == "x" * 995
        with pytest.raises(ResultNotKept, match="1003 bytes and 1000 are allowed") as large:
            await within(node.propose(1000), "an answer")
        assert (large.value.retriable, large.value.outcome) == (False, Outcome.DONE)
    for node in group.nodes.values():
        machine = node.machine
        assert isinstance(machine, Repeater)
        assert await node.read(lambda machine=machine: machine.applied) == 6  # type: ignore[misc]


async def test_a_leader_without_a_machine_says_so_at_once(group: MachineGroup[int, str]) -> None:
    """Two plain logs elect one of them; the third node has a machine."""
    logs = {}
    try:
        for name in ("n0", "n1"):
            ReplicatedLog.format(group.configs[name])
            logs[name] = ReplicatedLog(group.configs[name], clock=LoopClock())
            await logs[name].start()
        leader = await within(logs["n0"].wait_for_leader(), "a leader")
        await group.start("n2")
        node = group.nodes["n2"]
        await eventually(lambda: node.leader == leader, "the leader is known")
        with pytest.raises(NoMachine, match=f"{leader} leads the group") as none:
            await within(node.propose(1), "an answer before its time is over")
        assert (none.value.retriable, none.value.outcome) == (False, Outcome.NOT_DONE)
        assert none.value.leader == leader
    finally:
        for log in logs.values():
            await log.close()


def frame_of(parts: list[Buffer]) -> Frame:
    data = b"".join(map(bytes, parts))
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = data
    (frame,) = decoder.frames(len(data))
    return Frame(frame.type, bytes(frame.head), bytes(frame.raw), *frame[3:])


def test_only_a_forward_is_answered() -> None:
    sent = Forward(Asker(7, 8), 1, 1, [(Kind.COMMAND, 1, b"x")])
    reply = frame_of(no_machine(frame_of(pack_forward(sent))))
    assert unpack_reply(reply) == ForwardReply(Asker(7, 8), ForwardReason.NO_MACHINE)
    assert no_machine(reply) == []


def test_results_are_told_before_a_window_is_published() -> None:
    """At a full queue the told commands make the place that the published entry takes."""
    order: list[str] = []
    agreement = Agreement("n", 8, lambda _: order.append("published"))
    applier = Applier(
        Repeater(), agreement, order.append, lambda *_: order.append("told"), lambda: ("n",)
    )
    applier.apply([(0, 1, pack_entry((Kind.OPEN, 1, b""), 1, 0, 0))], leads=True)
    order.clear()
    items = [pack_entry((Kind.COMMAND, n, b"1"), 1, 0, 0) for n in range(1, 20)]
    applier.apply([(n, 1, body) for n, body in enumerate(items, 1)], leads=True)
    assert order == ["told", "published", "published"]


class Summed(Repeater):
    """Counts, and has a checksum of that."""

    def checksum(self) -> int:
        return self.applied


def test_batches_make_no_difference_to_the_checksums_of_states() -> None:
    """Each is of the state behind the last entry of a window, in the middle of a batch or not."""
    entries, found = list(history(5, 700)), list[list[bytes]]()
    for most in (1, 7, 64, 700):
        said = list[bytes]()
        agreement = Agreement("n", 50, said.append)
        applier = Applier(Summed(), agreement, lambda _: None, lambda *_: None, lambda: ("n",))
        for at in range(0, len(entries), most):
            applier.apply(entries[at : at + most], leads=True)
        found.append([data for data in said if data[0] & 0x80])
    assert len(found[0]) == 13
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("wrong", [-1, 1 << 32, "text"])
def test_a_checksum_that_is_none_stops_the_node(wrong: Any) -> None:
    class Wrong(Repeater):
        def checksum(self) -> int:
            return wrong  # type: ignore[no-any-return]

    agreement = Agreement("n", 50, lambda _: None)
    applier = Applier(Wrong(), agreement, lambda _: None, lambda *_: None, lambda: ("n",))
    with pytest.raises(StateMachineFailed, match="entry 49: checksum raised"):
        applier.apply(history(5, 60), leads=True)
