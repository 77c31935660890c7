"""The rules over arrays say what the checkers say: of every golden anomaly, of generated ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from chaos.checkers import verdict
from chaos.checkers.anomaly import Anomaly
from chaos.checkers.levels import Blackout
from chaos.history import Kind, Level, Operation, Outcome
from pipeline.jobs.history.check import HistoryVerdict, Word, judge_queue
from pipeline.jobs.history.columns import queue_columns
from pipeline.jobs.history.files import history_table, log_table
from tests.chaos.checkers.generated import Generated, broken, legal
from tests.chaos.checkers.golden_cases import Case, cases
from tests.pipeline.jobs.history.live_runs import power_failures, without_beginning
from tests.pipeline.jobs.history.queues import of_arrays, of_the_checkers

HISTORIES = int(os.environ.get("DLEDGER_HISTORIES", "100"))
of_few_and_of_many = pytest.mark.parametrize(
    "histories", [HISTORIES, pytest.param(800, marks=pytest.mark.long)]
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_golden(case: Case) -> None:
    found = of_arrays(case)
    assert found.names == case.expected
    assert found == of_the_checkers(case)


@pytest.mark.parametrize("name", sorted(set().union(*(case.expected for case in cases()))))
def test_a_name_is_lost_doubled_reordered_or_none_of_them_here_and_there(name: str) -> None:
    theirs = verdict.count(verdict.Word.INVALID, 0, [Anomaly(name, "")])
    ours = HistoryVerdict(Word.INVALID, 1, 0, {name: 1}, 0, ())
    for kind in ("lost", "doubled", "reordered", "others"):
        assert getattr(ours, kind) == getattr(theirs, kind), kind


@of_few_and_of_many
@pytest.mark.parametrize("make", [legal, broken])
def test_generated(make: Callable[[Random], Generated], histories: int) -> None:
    seen: set[str] = set()
    for seed in range(histories):
        history, log = make(Random(seed))
        few = [replace(op, process=f"p{number % 3}") for number, op in enumerate(history)]
        for operations in (history, few):
            case = Case(f"{seed}", frozenset(), operations, {"n1": {"": log}})
            found = of_arrays(case)
            assert found == of_the_checkers(case), case
            seen |= found.names
    assert make is legal or len(seen) >= 8


@of_few_and_of_many
@pytest.mark.parametrize("make", [power_failures, without_beginning])
def test_generated_live_runs(make: Callable[[Random], Case], histories: int) -> None:
    seen: set[str] = set()
    valid = taken_back = 0
    for seed in range(2 * histories):
        case = make(Random(seed))
        found = of_arrays(case)
        assert found == of_the_checkers(case), (seed, case)
        seen |= found.names
        valid += not found.names
        taken_back += found.taken_back > 0
    assert len(seen) >= 8
    assert valid > histories // 10, "lawful ones come, too"
    assert make is without_beginning or taken_back > histories // 10


def test_what_another_queue_holds_proves_that_it_was_synced() -> None:
    """y was put into the wrong queue; x, acknowledged before y began, is lost as it is."""
    history = [
        Operation("p", Kind.APPEND, "x", 1, 2, Outcome.OK, 1, "q1", level=Level.IN_MEMORY),
        Operation("q", Kind.APPEND, "y", 2.5, 3, Outcome.OK, 0, "q1", level=Level.IN_MEMORY),
    ]
    case = Case("", frozenset(), history, {"n1": {"q1": [], "q2": [(0, "y")]}})
    case.blackouts.append(Blackout(3.2, 4))
    assert of_arrays(case) == of_the_checkers(case)
    assert of_arrays(case).taken_back == 0
    case.replicas["n1"]["q2"] = []
    assert of_arrays(case) == of_the_checkers(case)
    assert of_arrays(case).taken_back == 2


def consumers(random: Random) -> tuple[list[Operation], list[tuple[int, str]]]:
    """Any polls, seeks, commits and fetches over a log: hardly one of them is legal."""
    log = [(offset, f"v{offset}") for offset in range(8) if random.random() < 0.8]
    history = [
        Operation(f"p{o}", Kind.APPEND, v, o / 10, o / 10 + 0.1, Outcome.OK, o) for o, v in log
    ]
    for _ in range(random.randrange(1, 8)):
        begin = random.uniform(0, 10)
        end = begin + random.expovariate(1)
        process = random.choice(["c1", "c2", "g"])
        kind = random.choice([Kind.POLL, Kind.POLL, Kind.SEEK, Kind.COMMIT, Kind.FETCH, Kind.READ])
        outcome = random.choice([Outcome.OK, Outcome.OK, Outcome.OK, Outcome.INFO])
        offset = random.randrange(-1 if kind is Kind.FETCH else 0, 10)
        value = random.choice(["g", "h"]) if kind in (Kind.COMMIT, Kind.FETCH) else ""
        values: tuple[tuple[int, str], ...] = ()
        if kind is Kind.POLL:
            begin_at = random.randrange(8)
            values = tuple(
                (at, f"v{at}" if random.random() < 0.95 else "ghost")
                for at in range(begin_at, begin_at + random.randrange(4))
                if random.random() < 0.9
            )
            if values and random.random() < 0.1:
                values = (*values, values[0])
            if values and random.random() < 0.1:
                values = (*values, (values[-1][0] + 1, values[0][1]))
            offset = values[0][0] if values else offset
        if kind is Kind.READ and offset:
            value = f"v{offset - 1}"
        history.append(Operation(process, kind, value, begin, end, outcome, offset, "", values))
    return history, log


@of_few_and_of_many
@pytest.mark.parametrize("everything_read", [False, True])
def test_generated_consumers(everything_read: bool, histories: int) -> None:
    seen: set[str] = set()
    for seed in range(2 * histories):
        history, log = consumers(Random(seed))
        replicas = {"n1": {"": log}}
        case = Case(f"{seed}", frozenset(), history, replicas, everything_read=everything_read)
        found = of_arrays(case)
        assert found == of_the_checkers(case), case
        seen |= found.names
    assert len(seen) >= 8


def test_counts_of_single_faults() -> None:
    """Not names alone: so many operations, so many anomalies."""
    history = [
        Operation(f"p{n % 5}", Kind.APPEND, f"v{n}", n, n + 0.5, Outcome.OK, n) for n in range(1000)
    ]
    log = [(n, f"v{n}") for n in range(1000) if n not in (0, 500, 501, 999)] + [(1000, "v7")]
    queue = queue_columns(history_table(history), {"n1": log_table(log)})
    assert judge_queue(queue) == {
        "lost-prefix": 1,
        "lost-middle": 3,
        "duplicate": 1,
    }
