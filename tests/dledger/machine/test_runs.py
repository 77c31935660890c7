"""Commands that one proposal brought are admitted in one go, and nothing differs by that."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from dledger.core.types import NodeId, Term
from dledger.errors import CommandRefused, StateMachineFailed
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Applier, Results, Told
from dledger.machine.entries import (
    Kind,
    Row,
    Run,
    _end_of_run,
    pack_entries,
    pack_entry,
    runs_of,
)
from dledger.machine.sessions import WINDOW, Sessions, Verdict
from dledger.machine.state_machine import Entry, ReplicatedStateMachine
from dledger.replica.envelope import noop_body


class Noting(ReplicatedStateMachine[bytes, str]):
    """Notes all that it is given; refuses some, and has results of different sizes."""

    results_bytes_max = 20_000

    def __init__(self) -> None:
        self.seen: list[Entry[bytes]] = []

    def apply(self, entry: Entry[bytes]) -> str:
        self.seen.append(entry)
        if entry.command.endswith(b"7"):
            raise CommandRefused("seven")
        return "r" * (len(self.seen) % 50)

    def encode(self, command: bytes) -> bytes:
        return command

    def decode(self, data: bytes) -> bytes:
        return data


class Node:
    """An applier, and all that it told."""

    def __init__(self) -> None:
        self.machine = Noting()
        self.told: list[Told] = []
        self.results: list[tuple[int, int, str]] = []
        self.published: list[bytes] = []
        agreement = Agreement("n0", 50, self.published.append)
        self.applier: Applier[bytes, str] = Applier(
            self.machine, agreement, self.told.append, self._applied, lambda: ("n0", "n1", "n2")
        )

    def _applied(self, session: int, results: Results) -> None:
        self.results += [(session, sequence, str(result)) for sequence, result in results]

    def apply(self, rows: list[Row]) -> None:
        self.applier.apply(iter(rows), leads=True)


def log(draw: random.Random, count: int) -> list[Row]:
    """Proposals as faults leave them: repeated, late, mixed, of sessions that are gone."""
    rows: list[Row] = []
    sessions, next_of, time_ms, term = [-1], {-1: 1}, 1, 1
    while len(rows) < count:
        time_ms += draw.choice((0, 0, 1, -1))
        term += draw.random() < 0.05
        session = draw.choice(sessions)
        first = next_of[session] - draw.choice((0, 0, 0, 0, 3, 20))
        lowest = max(0, next_of[session] - draw.choice((5, 40, 200)))
        sequences = list(range(max(0, first), first + draw.choice((1, 2, 3, 10, 70))))
        if draw.random() < 0.1:
            sequences += sequences[-2:]
        if draw.random() < 0.1:
            draw.shuffle(sequences)
        if draw.random() < 0.02:
            sequences.append(lowest + WINDOW)
        kinds = [Kind.COMPARE if draw.random() < 0.002 else Kind.COMMAND for _ in sequences]
        items = [
            (int(kind), sequence, compared() if kind is Kind.COMPARE else b"c%d" % sequence)
            for kind, sequence in zip(kinds, sequences, strict=True)
        ]
        bodies = pack_entries(items, time_ms, session, lowest)
        if draw.random() < 0.1:
            bodies.insert(
                draw.randrange(len(bodies) + 1), bytes(noop_body(NodeId("n0"), Term(term), 5))
            )
        next_of[session] = max(next_of[session], *(one + 1 for one in sequences[:-1]), 1)
        if draw.random() < 0.1:
            number = len(rows) + len(bodies)
            bodies.append(pack_entry((Kind.OPEN, number, b""), time_ms, 0, 0))
            sessions.append(number)
            next_of[number] = 1
        rows += [(len(rows) + at, term, memoryview(body)) for at, body in enumerate(bodies)]
    return rows


def compared() -> bytes:
    """What a node publishes of a window in which it has seen nothing."""
    return bytes(8) + bytes(4) + b"n1"


@pytest.mark.parametrize("seed", range(12))
def test_what_is_applied_does_not_depend_on_how_entries_come(seed: int) -> None:
    draw = random.Random(seed)
    rows = log(draw, 1500)
    alone, together = Node(), Node()
    for row in rows:
        alone.apply([row])
    for piece in pieces(draw, rows):
        together.apply(piece)
    assert len(alone.machine.seen) > 500
    assert together.machine.seen == alone.machine.seen
    assert together.results == alone.results
    assert together.told == alone.told
    assert together.published == alone.published
    assert together.applier.head() == alone.applier.head()


def pieces(draw: random.Random, rows: list[Row]) -> Iterator[list[Row]]:
    begin = 0
    while begin < len(rows):
        end = begin + draw.choice((1, 2, 30, 64, 300))
        yield rows[begin:end]
        begin = end


def rows_of(bodies: list[bytes]) -> list[Row]:
    return [(at, 1, memoryview(body)) for at, body in enumerate(bodies)]


def command(sequence: int, *, time_ms: int = 5, session: int = 4, lowest: int = 2) -> bytes:
    return pack_entry((Kind.COMMAND, sequence, b"x"), time_ms, session, lowest)


@pytest.mark.parametrize(
    "other",
    [
        command(5, time_ms=6),
        command(5, session=5),
        command(5, lowest=3),
        command(4),
        command(6),
        pack_entry((Kind.COMPARE, 5, b"x"), 5, 4, 2),
        b"no command",
        b"no command, and longer than the head of one is",
    ],
)
def test_a_run_ends_before_what_its_proposal_did_not_bring(other: bytes) -> None:
    alike = [command(sequence) for sequence in (1, 2, 3, 4)]
    assert runs_of(rows_of(alike)) == [Run(4, 5, 4, 1, 2)]
    found = runs_of(rows_of([*alike, other, *[command(sequence) for sequence in (6, 7, 8)]]))
    covered = [run for run in found if run.session >= 0 and run.end > 4 and run.sequence < 5]
    assert covered == [], "the other one is in no run with those before it"
    assert found[-1].end == 8


@pytest.mark.parametrize(
    ("sequences", "lowest"),
    [
        (range(5, 9), 1),  # 5 was applied
        (range(2, 5), 3),  # 2 is forgotten by the run itself
        (range(1, 4), 1),  # 1 was forgotten before
        (range(WINDOW, WINDOW + 4), 3),
    ],
)
def test_a_run_with_one_that_is_not_new_is_looked_at_one_by_one(
    sequences: range, lowest: int
) -> None:
    sessions = Sessions()
    sessions.open(0, 1)
    assert sessions.admit(0, 5, 2, 1) is Verdict.APPLY
    sessions.keep(0, [5], [b"five"])
    before = sessions.dump()
    assert not sessions.admit_run(0, sequences, lowest, 9)
    assert not sessions.admit_run(3, range(1, 4), 1, 9), "there is no such session"
    assert sessions.dump() == before
    assert sessions.admit_run(0, range(6, 10), 5, 9)
    assert [sessions.admit(0, sequence, 5, 9) for sequence in range(6, 10)] == [
        Verdict.DUPLICATE
    ] * 4


def test_a_command_of_a_later_release_stops_the_node_in_the_middle_of_a_run() -> None:
    node = Node()
    node.apply([(0, 1, memoryview(pack_entry((Kind.OPEN, 7, b""), 5, 0, 0)))])
    bodies = [command(sequence, session=0) for sequence in range(2, 8)]
    later = bytearray(bodies[3])
    later[4] = 2
    bodies[3] = bytes(later)
    with pytest.raises(StateMachineFailed, match="later release") as failed:
        node.apply([(at + 1, 1, memoryview(body)) for at, body in enumerate(bodies)])
    assert failed.value.index == 4


def test_commands_that_came_alone_are_not_compared_with_all_behind_them() -> None:
    """A log of them was replayed at twice the price: each was compared with 63 others."""

    class Heads(list[tuple[int, ...]]):
        def __getitem__(self, at: Any) -> Any:
            slices.extend([at] if isinstance(at, slice) else [])
            return super().__getitem__(at)

    slices: list[slice] = []
    heads = Heads((1, number // 3, 7, number, number // 3) for number in range(64))
    assert [_end_of_run(heads, begin) for begin in range(0, 64, 3)] == [*range(3, 64, 3), 64]
    assert len(slices) <= 1, "the last one, with which the rest agrees"
