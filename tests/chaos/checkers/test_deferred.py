"""Golden cases of what waits in a broker: each flagged under its names, valid ones under none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from chaos.checkers.anomaly import Log
from chaos.checkers.deferred import Found, Span, Times, as_appends, shown
from chaos.checkers.delayed import judge_delayed
from chaos.checkers.queues import judge_queues
from chaos.checkers.transactions import judge_transactions
from chaos.history import INFINITY, Kind, Operation, Outcome

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def op(kind: Kind, begin: float, outcome: Outcome = OK, due: float = -1.0) -> Operation:
    """Of the value `a` in the queue `d0`; it takes 0.1 s, if it ends."""
    ended = INFINITY if outcome is INFO else begin + 0.1
    return Operation("p", kind, "a", begin, ended, outcome, log="d0", due=due)


def delay(outcome: Outcome = OK) -> Operation:
    """Sent at 1 s for 3 s."""
    return op(Kind.DELAY, 1.0, outcome, due=3.0)


def half(outcome: Outcome = OK) -> Operation:
    """Sent at 1 s."""
    return op(Kind.HALF, 1.0, outcome)


def commit(outcome: Outcome = OK) -> Operation:
    """At 2 s."""
    return op(Kind.HALF_COMMIT, 2.0, outcome)


def rollback(outcome: Outcome = OK) -> Operation:
    """At 2 s."""
    return op(Kind.HALF_ROLLBACK, 2.0, outcome)


def poll(at: float, *values: tuple[int, str]) -> Operation:
    """A reader is shown them at `at`."""
    where = values[0][0]
    return Operation("r", Kind.POLL, "", at - 0.05, at, OK, where, "d0", values)


@dataclass(frozen=True)
class Case:
    """The load ends, and all is healed, at 10 s; readers have 5 s from then on."""

    name: str
    expected: set[str]
    history: list[Operation]
    log: Log = ()
    clocks: list[Span] = field(default_factory=list)
    watched: float = 20.0
    begins: int = 0

    def times(self) -> Times:
        return Times(10.0, self.watched, 5.0, clocks=self.clocks)


A: Log = [(0, "a")]
SEEN = (0, "a")
TWICE = [SEEN, (1, "a")]
JUMP = [Span(0.5, 2.5)]

CASES = [
    Case("delayed-in-time", set(), [delay(), poll(3.05, SEEN)], A),
    Case("delayed-in-the-log-only", {"never-read"}, [delay()], A),
    Case("delayed-in-the-log-and-not-watched-for", set(), [delay()], A, watched=14.0),
    Case("delayed-early", {"delayed-early"}, [delay(), poll(2.0, SEEN)], A),
    Case("delayed-early-of-unknown-outcome", {"delayed-early"}, [delay(INFO), poll(2, SEEN)], A),
    Case("delayed-early-while-a-clock-jumped", set(), [delay(), poll(2.0, SEEN)], A, JUMP),
    Case("delayed-early-by-no-more-than-clocks-differ", set(), [delay(), poll(2.95, SEEN)], A),
    Case("delayed-lost", {"delayed-lost"}, [delay()]),
    Case(
        "delayed-lost-that-another-clock-jumped-later",
        {"delayed-lost"},
        [delay()],
        (),
        [Span(5, 6)],
    ),
    Case("delayed-not-yet-while-a-clock-jumped", set(), [delay()], (), JUMP),
    Case("delayed-not-watched-for", set(), [delay()], watched=14.0),
    Case("delayed-late", {"delayed-late"}, [delay(), poll(15.5, SEEN)], A),
    Case("delayed-late-during-faults-only", set(), [delay(), poll(14.5, SEEN)], A),
    Case("delayed-doubled", {"duplicate"}, [delay(), poll(3.1, *TWICE)], TWICE),
    Case("delayed-doubled-of-unknown-outcome", {"duplicate"}, [delay(INFO)], [(0, "a"), (1, "a")]),
    Case("delayed-unknown-and-there", set(), [delay(INFO)], A),
    Case("delayed-unknown-and-not-there", set(), [delay(INFO)]),
    Case("delayed-refused-and-there", {"G1a"}, [delay(FAIL)], A),
    Case("delayed-refused-and-not-there", set(), [delay(FAIL)]),
    Case("delayed-shown-and-gone", {"precommitted-read"}, [delay(), poll(3.5, SEEN)]),
    Case(
        "delayed-shown-and-deleted",
        set(),
        [delay(), poll(3.5, SEEN, (1, "b")), replace(delay(), value="b")],
        [(1, "b")],
        begins=100,
    ),
    Case(
        "delayed-deleted-before-it-was-shown",
        set(),
        [delay(), Operation("r", Kind.SEEK, "", 8, 8.1, OK, 5, "d0")],
        begins=100,
    ),
    Case("committed", set(), [half(), commit(), poll(2.1, SEEN)], A),
    Case("committed-and-shown-before-the-answer", set(), [half(), commit(), poll(2.05, SEEN)], A),
    Case("committed-lost", {"committed-lost"}, [half(), commit()]),
    Case("committed-lost-though-the-half-was-unsure", {"committed-lost"}, [half(INFO), commit()]),
    Case("committed-doubled", {"duplicate"}, [half(), commit(), poll(2.1, *TWICE)], TWICE),
    Case("committed-and-shown-to-nobody", {"never-read"}, [half(), commit()], A),
    Case("committed-and-not-watched-for", set(), [half(), commit()], A, watched=14.0),
    Case("commit-unknown-and-there", set(), [half(), commit(INFO), poll(2.1, SEEN)], A),
    Case("commit-unknown-and-shown-to-nobody", {"commit-stuck"}, [half(), commit(INFO)], A),
    Case("commit-when-asked-and-nobody-asked", {"commit-stuck"}, [replace(half(), due=1.0)]),
    Case("commit-when-asked-not-watched-for", set(), [replace(half(), due=1.0)], watched=14.0),
    Case("commit-when-asked-of-an-unsure-half", set(), [replace(half(INFO), due=1.0)]),
    Case("commit-stuck", {"commit-stuck"}, [half(), commit(INFO)]),
    Case("commit-could-not-be-sent-and-stuck", {"commit-stuck"}, [half(), commit(FAIL)]),
    Case("commit-late", {"commit-stuck"}, [half(), commit(INFO), poll(15.5, SEEN)], A),
    Case("commit-not-watched-for", set(), [half(), commit(INFO)], watched=14.0),
    Case("half-unknown-commit-unknown-not-there", set(), [half(INFO), commit(INFO)]),
    Case("half-unknown-commit-unknown-there", set(), [half(INFO), commit(INFO)], A),
    Case("half-visible", {"half-visible"}, [half()], A),
    Case("half-visible-before-commit", {"half-visible"}, [half(), commit(), poll(1.9, SEEN)], A),
    Case("half-unknown-visible", {"half-visible"}, [half(INFO)], A),
    Case("half-refused-and-there", {"G1a"}, [half(FAIL)], A),
    Case("aborted-visible", {"G1a"}, [half(), rollback()], A),
    Case("aborted-visible-though-unsure", {"G1a"}, [half(), rollback(INFO)], A),
    Case("aborted-read", {"G1a"}, [half(), rollback(), poll(3.0, SEEN)], A),
    Case("aborted-and-not-there", set(), [half(), rollback()]),
    Case("never-decided-and-not-there", set(), [half()]),
]


def judged(case: Case) -> tuple[Found, Found, set[str]]:
    """Both checks, and the names of all anomalies with those of the queues."""
    replicas = {"n1": {"d0": case.log}}
    seen = shown(case.history, replicas.values(), case.begins)
    delayed = judge_delayed(case.history, seen, case.times())
    halves = judge_transactions(case.history, seen, case.times())
    queues = judge_queues(list(as_appends(case.history)), replicas, acked_min=0, begins=case.begins)
    found = [*delayed.anomalies, *halves.anomalies, *queues.anomalies]
    return delayed, halves, {anomaly.name for anomaly in found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_named_as_it_is(case: Case) -> None:
    *_, names = judged(case)
    assert names == case.expected


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_what_is_excused_is_counted() -> None:
    by_name = {case.name: case for case in CASES}
    early, late, open_, stuck = (
        judged(by_name[name])
        for name in (
            "delayed-early-while-a-clock-jumped",
            "delayed-not-yet-while-a-clock-jumped",
            "delayed-not-watched-for",
            "commit-not-watched-for",
        )
    )
    assert (early[0].excused, early[0].open, early[0].arrived) == (1, 0, 1)
    assert (late[0].excused, late[0].open, late[0].arrived) == (1, 0, 0)
    assert (open_[0].sent, open_[0].open) == (1, 1)
    assert (stuck[1].sent, stuck[1].open) == (1, 1)
