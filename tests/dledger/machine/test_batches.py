"""Commands of one turn go out in few batches, none larger than a frame may be, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dledger.core.types import NodeId
from dledger.errors import CommandRefused, DledgerError, StateMachineFailed
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Applier, Results, Told
from dledger.machine.entries import Item, Kind, pack_entries, pack_entry
from dledger.machine.proposer import BATCH_BYTES_MAX, Proposer
from dledger.machine.sessions import RESULT_OVERHEAD, Sessions
from dledger.machine.state_machine import Entry, ReplicatedStateMachine
from dledger.wire.forwards import ITEMS_MAX, Forward

ME, LEADER = NodeId("n0"), NodeId("n1")


class Machine(ReplicatedStateMachine[int, int]):
    """Its result is the command; 13 cannot be read, 7 is refused, 8 has no bytes."""

    def apply(self, entry: Entry[int]) -> int:
        if entry.command == 7:
            raise CommandRefused("seven")
        return entry.command

    def decode(self, data: bytes) -> int:
        if data == b"13":
            raise ValueError("unlucky")
        return int(data)

    def encode_result(self, result: int) -> bytes:
        if result == 8:
            raise TypeError("eight")
        return b"%d" % result


class Ports:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Item]] = []

    def append(
        self,
        session: int,
        lowest: int,
        items: Sequence[Item],
        done: Callable[[DledgerError | None], None],
    ) -> None:
        self.batches.append(items)

    def forward(self, leader: NodeId, forward: Forward) -> bool:
        self.batches.append(forward.items)
        return True

    def new_number(self) -> int:
        return 77


def applier(told: list[tuple[int, Results]], machine: Machine | None = None) -> Applier[int, int]:
    def applied(session: int, results: Results) -> None:
        told.append((session, results))

    news: list[Told] = []
    agreement = Agreement("n0", 10, lambda _: None)
    made: Applier[int, int] = Applier(
        machine or Machine(), agreement, news.append, applied, lambda: ("n0",)
    )
    opening = [pack_entry((Kind.OPEN, number, b""), 1, 0, 0) for number in (1, 2)]
    made.apply([(number, 1, body) for number, body in enumerate(opening)], leads=False)
    return made


def entries(session: int, first: int, commands: Sequence[tuple[int, int]]) -> Any:
    """(sequence, number) of commands as entries from index `first` on."""
    items = [(int(Kind.COMMAND), sequence, b"%d" % number) for sequence, number in commands]
    bodies = pack_entries(items, 5, session, 1)
    return [(first + at, 1, memoryview(body)) for at, body in enumerate(bodies)]


@pytest.mark.parametrize("leader", [ME, LEADER])
@pytest.mark.parametrize(
    ("count", "size", "batches"),
    [
        (ITEMS_MAX, 0, 1),
        (ITEMS_MAX + 1, 0, 2),
        (3, BATCH_BYTES_MAX, 3),
        (2, 3 * BATCH_BYTES_MAX, 2),
        (300, 1024, 2),
    ],
)
def test_a_turn_of_commands_is_few_batches(
    leader: NodeId, count: int, size: int, batches: int
) -> None:
    ports = Ports()
    proposer = Proposer(ME, 0, applier([]), ports, 1.0, leader=leader, session=0)
    data = bytes(size)
    for _ in range(count):
        proposer.propose(Kind.COMMAND, data, lambda *_: None, 9.0)
    proposer.flush(0.0)
    sent = [sequence for batch in ports.batches for _, sequence, _ in batch]
    assert sent == list(range(1, count + 1))
    assert len(ports.batches) == batches
    assert max(map(len, ports.batches)) <= ITEMS_MAX
    for batch in ports.batches:
        assert len(batch) == 1 or sum(len(data) for *_, data in batch) <= BATCH_BYTES_MAX
    proposer.flush(0.0)
    assert len(ports.batches) == batches, "nothing is sent twice"


def test_results_are_told_session_by_session_in_the_order_of_the_log() -> None:
    told: list[tuple[int, Results]] = []
    made = applier(told)
    made.apply(
        [
            *entries(0, 2, [(1, 10), (2, 20)]),
            *entries(1, 4, [(1, 30)]),
            *entries(0, 5, [(3, 40), (3, 41)]),  # a duplicate
        ],
        leads=False,
    )
    assert told == [(0, [(1, 10), (2, 20)]), (1, [(1, 30)]), (0, [(3, 40)])]
    assert made.sessions.result(0, 3) == b"\x0040"


def test_a_refusal_among_results_is_kept_and_told_as_one() -> None:
    told: list[tuple[int, Results]] = []
    made = applier(told)
    made.apply(entries(0, 2, [(1, 6), (2, 7), (3, 9)]), leads=False)
    [(session, results)] = told
    assert [session, results[0], results[2]] == [0, (1, 6), (3, 9)]
    assert isinstance(results[1][1], CommandRefused)
    assert made.sessions.result(0, 2) == b"\x01seven"


@pytest.mark.parametrize(
    ("bad", "says"),
    [(13, "decode raised ValueError: unlucky"), (8, "type int has no bytes: TypeError: eight")],
)
def test_the_entry_that_fails_is_named_in_the_middle_of_a_batch(bad: int, says: str) -> None:
    told: list[tuple[int, Results]] = []
    with pytest.raises(StateMachineFailed, match=says) as failed:
        applier(told).apply(entries(0, 2, [(1, 6), (2, bad), (3, 9)]), leads=False)
    assert failed.value.index == 3
    assert told == [], "no result of a batch that failed is told"


def test_what_is_forgotten_gives_back_all_that_it_counted_for() -> None:
    """Also a command that is being applied: another of its batch may forget it."""
    sessions = Sessions()
    sessions.open(0, 1)
    sessions.open(1, 1)
    for sequence in range(1, 6):
        sessions.admit(0, sequence, 1, 1)
    sessions.keep(0, [1, 2, 4], [b"\0one", b"\0", b"\0four"])
    assert sessions.results_bytes == 5 * RESULT_OVERHEAD + 4 + 1 + 5
    sessions.admit(0, 6, 5, 1)
    assert sessions.results_bytes == 2 * RESULT_OVERHEAD
    sessions.admit(0, 1 << 20, 1 << 20, 1)
    assert sessions.results_bytes == RESULT_OVERHEAD
    assert sessions.results(0) == {1 << 20: None}


def test_the_session_that_was_used_last_goes_last() -> None:
    """Whichever came in between: another one, a new one or a table that was sent."""
    sessions = Sessions(sessions_max=2)
    for number in (0, 1):
        sessions.open(number, 1)
    for session in (0, 1, 0):
        sessions.admit(session, 1, 1, 1)
    sessions.keep(0, [1], [b"\0"])
    sessions.keep(1, [1], [b"\0"])
    sessions.open(2, 1)
    sessions.expire(1)
    assert [number in sessions for number in (0, 1, 2)] == [True, False, True]
    sessions.admit(0, 2, 1, 1)
    sessions.keep(0, [2], [b"\0"])
    table = Sessions(sessions_max=2)
    table.admit(0, 1, 1, 1)
    table.load(sessions.dump())
    table.admit(2, 1, 1, 1)
    table.admit(0, 3, 1, 1)
    table.open(3, 1)
    table.expire(1)
    assert [number in table for number in (0, 2, 3)] == [True, False, True]


@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_results_of_a_batch_come_in_any_sequence(kind: Callable[[list[int]], Any]) -> None:
    class Batched(Machine):
        def apply_batch(self, entries: Sequence[Entry[int]]) -> Any:
            return kind([entry.command for entry in entries])

    told: list[tuple[int, Results]] = []
    made = applier(told, Batched())
    made.apply(
        [*entries(0, 2, [(1, 10), (2, 20)]), *entries(1, 4, [(1, 30)])],
        leads=False,
    )
    assert told == [(0, [(1, 10), (2, 20)]), (1, [(1, 30)])]


def test_a_batch_without_results_is_a_fault_of_the_machine() -> None:
    class Batched(Machine):
        def apply_batch(self, entries: Sequence[Entry[int]]) -> Any:
            return None

    with pytest.raises(StateMachineFailed, match="NoneType"):
        applier([], Batched()).apply(entries(0, 2, [(1, 10)]), leads=False)
