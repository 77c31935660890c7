"""Golden anomalies: each bad history is flagged under its name, and a good one is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest

from chaos.checkers.anomaly import Anomaly, Log
from chaos.checkers.doubled import find_doubled, find_strangers
from chaos.checkers.lost import find_lost
from chaos.checkers.order import (
    find_backward_reads,
    find_producer_disorder,
    find_real_time_violations,
)
from chaos.checkers.replicas import find_divergence
from chaos.checkers.verdict import Word, count, judge
from chaos.history import INFINITY, Kind, Operation, Outcome

SWEEP_SECONDS_MAX = 10.0


def append(
    process: str,
    value: str,
    begin: float,
    end: float,
    offset: int = -1,
    outcome: Outcome = Outcome.OK,
) -> Operation:
    return Operation(process, Kind.APPEND, value, begin, end, outcome, offset)


def read(process: str, begin: float, end: float, tail: int, value: str = "") -> Operation:
    return Operation(process, Kind.READ, value, begin, end, Outcome.OK, tail)


GOOD = [
    append("p1", "a", 0, 1, 0),
    append("p2", "b", 0.5, 2, 2),
    append("p1", "c", 1.5, 3, 3),
    append("p3", "lost-or-not", 1, INFINITY, outcome=Outcome.INFO),
    append("p4", "refused", 1, 1.2, outcome=Outcome.FAIL),
    read("r1", 3.1, 3.2, 4, "c"),
]
GOOD_LOG: Log = [(0, "a"), (2, "b"), (3, "c")]


def names(history: list[Operation], log: Log) -> set[str]:
    return {anomaly.name for anomaly in judge(history, {"n0": log}).anomalies}


def test_a_good_history_is_valid_with_and_without_the_unknown_append() -> None:
    verdict = judge(GOOD, {"n0": GOOD_LOG, "n1": list(GOOD_LOG)})
    assert verdict.word is Word.VALID
    assert (verdict.acked, verdict.lost, verdict.doubled, verdict.reordered) == (3, 0, 0, 0)
    assert judge(GOOD, {"n0": [*GOOD_LOG, (4, "lost-or-not")]}).word is Word.VALID


def test_what_is_no_order_is_not_called_reordered() -> None:
    silence = Anomaly("unavailable", "14 s without an acknowledgement")
    back, gone = Anomaly("nonmonotonic-poll", ""), Anomaly("lost-prefix", "")
    verdict = count(Word.INVALID, 3, [silence, back, gone])
    found = (verdict.lost, verdict.doubled, verdict.reordered, verdict.others)
    assert found == (1, 0, 1, 1)


def test_a_history_without_acknowledgements_proves_nothing() -> None:
    assert judge([], {"n0": []}).word is Word.UNKNOWN


@pytest.mark.parametrize(
    ("kept", "name"),
    [
        ([(2, "b"), (3, "c")], "lost-prefix"),
        ([(0, "a"), (3, "c")], "lost-middle"),
        ([(0, "a"), (2, "b")], "lost-postfix"),
        ([], "lost-postfix"),
        ([(0, "a"), (1, "b"), (3, "c")], "inconsistent-offsets"),
    ],
)
def test_an_acknowledged_value_that_is_gone(kept: Log, name: str) -> None:
    found = find_lost(GOOD, kept)
    assert [anomaly.name for anomaly in found if anomaly.name == name]
    assert judge(GOOD, {"n0": kept}).lost >= 1
    assert judge(GOOD, {"n0": kept}).word is Word.INVALID


def test_another_value_at_an_acknowledged_offset_is_named() -> None:
    found = find_lost([append("p1", "a", 0, 1, 0)], [(0, "x")])
    assert "x is there" in found[0].detail


def test_a_value_that_stands_twice() -> None:
    assert [a.name for a in find_doubled([(0, "a"), (1, "b"), (5, "a")])] == ["duplicate"]
    assert judge(GOOD, {"n0": [*GOOD_LOG, (9, "a")]}).doubled == 1


def test_values_that_should_not_be_there() -> None:
    found = find_strangers(GOOD, [*GOOD_LOG, (4, "refused"), (5, "never sent"), (6, "busy")])
    assert [anomaly.name for anomaly in found] == ["G1a", "unexpected", "unexpected"]
    assert not find_strangers(GOOD, [(6, "busy")], unfinished=["busy"])


def test_an_append_below_what_was_known_when_it_began() -> None:
    history = [append("p1", "a", 0, 1, 5), append("p2", "b", 2, 3, 4)]
    assert names(history, [(4, "b"), (5, "a")]) == {"G0-realtime"}
    overlapping = [append("p1", "a", 0, 2.5, 5), append("p2", "b", 2, 3, 4)]
    assert names(overlapping, [(4, "b"), (5, "a")]) == set()


def test_two_appends_at_one_offset() -> None:
    history = [append("p1", "a", 0, 1, 5), append("p2", "b", 2, 3, 5)]
    assert "G0-realtime" in names(history, [(5, "a")])


def test_a_stale_read() -> None:
    history = [append("p1", "a", 0, 1, 0), append("p1", "b", 1, 2, 1), read("r1", 3, 4, 1, "a")]
    assert names(history, [(0, "a"), (1, "b")]) == {"stale-read"}


def test_a_read_that_a_later_read_contradicts() -> None:
    history = [
        append("p1", "a", 0, 9, 0),
        read("r1", 1, 2, 1, "a"),
        read("r2", 3, 4, 0),
    ]
    assert names(history, [(0, "a")]) == {"stale-read"}


def test_reads_of_what_is_not_there() -> None:
    early = [append("p1", "a", 5, 6, 0), read("r1", 1, 2, 1, "a")]
    assert "unexpected" in names(early, [(0, "a")])
    dirty = [
        append("p1", "a", 0, INFINITY, outcome=Outcome.INFO),
        append("p2", "b", 3, 4, 0),
        read("r1", 1, 2, 1, "a"),
    ]
    found = find_real_time_violations(dirty, [(0, "b")])
    assert {anomaly.name for anomaly in found} == {"precommitted-read", "G0-realtime"}


def test_a_producer_out_of_order() -> None:
    history = [append("p1", "a", 0, 1, 7), append("p1", "b", 2, 3, 6)]
    assert [a.name for a in find_producer_disorder(history)] == ["nonmonotonic-send"]


def test_a_process_that_reads_backward() -> None:
    history = [read("r1", 0, 1, 5), read("r1", 2, 3, 4)]
    assert [a.name for a in find_backward_reads(history)] == ["nonmonotonic-read"]
    own = [append("p1", "a", 0, 1, 5), read("p1", 2, 3, 5)]
    assert [a.name for a in find_backward_reads(own)] == ["nonmonotonic-read"]


def test_replicas_that_differ_are_named_with_the_first_place() -> None:
    found = find_divergence({"n0": [(0, "a"), (1, "b")], "n1": [(0, "a"), (1, "x")], "n2": []})
    assert [anomaly.name for anomaly in found] == ["diverged", "diverged"]
    assert "number 1" in found[0].detail
    assert "the end" in found[1].detail
    assert judge(GOOD, {"n0": GOOD_LOG, "n1": GOOD_LOG[:2]}).word is Word.INVALID


def _legal(random: Random, size: int) -> tuple[list[Operation], list[tuple[int, str]]]:
    """A history made from a log: effects happen in order, operations stretch around them."""
    log, history = [], []
    busy: dict[str, float] = {}
    for offset in range(size):
        moment = 1.0 + offset
        free = [f"p{n}" for n in range(4) if busy.get(f"p{n}", 0) < moment - 0.01] or [f"q{offset}"]
        process = random.choice(free)
        begin = max(busy.get(process, 0.0), moment - random.random() * 3)
        end = moment + random.random() * 3
        busy[process] = end
        if random.random() < 0.7:
            log.append((offset, f"v{offset}"))
            history.append(append(process, f"v{offset}", begin, end, offset))
        else:
            last = log[-1][1] if log else ""
            tail = log[-1][0] + 1 if log else 0
            history.append(read(process, begin, end, tail, last))
    return history, log


def test_generated_histories_are_valid_and_one_edit_makes_them_invalid() -> None:
    for seed in range(300):
        random = Random(seed)
        history, log = _legal(random, 30)
        assert not judge(history, {"n0": log}).anomalies, seed
        place = random.randrange(len(log) - 1)
        edit = random.choice(("drop", "double", "swap"))
        broken = list(log)
        if edit == "drop":
            del broken[place]
        elif edit == "double":
            broken.append((1000, log[place][1]))
        else:
            (one, a), (two, b) = log[place], log[place + 1]
            broken[place], broken[place + 1] = (one, b), (two, a)
        assert judge(history, {"n0": broken}).word is Word.INVALID, (seed, edit)


def test_a_stale_read_is_found_wherever_it_is_put() -> None:
    for seed in range(100):
        random = Random(seed)
        history, log = _legal(random, 30)
        acked = [op for op in history if op.kind is Kind.APPEND]
        victim = random.choice(acked)
        stale = read("late", victim.completed + 0.5, victim.completed + 0.6, victim.offset)
        assert "stale-read" in names([*history, stale], log), seed


@pytest.mark.long
def test_a_million_operations_are_swept_in_ten_seconds() -> None:
    """The bar of docs/spec/chaos.md 6, in seconds of one processor."""
    history, log = _legal(Random(1), 1_000_000)
    began = time.process_time()
    assert not find_real_time_violations(history, log)
    assert time.process_time() - began < SWEEP_SECONDS_MAX


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_wrong_place_among_many_is_found(count: int) -> None:
    history, log = _legal(Random(1), count)
    assert not find_real_time_violations(history, log)
    last = max((op for op in history if op.kind is Kind.APPEND), key=lambda op: op.offset)
    history.append(read("late", last.completed + 0.5, last.completed + 0.6, last.offset))
    assert "stale-read" in {one.name for one in find_real_time_violations(history, log)}


def test_a_check_that_breaks_is_told_and_not_passed_over() -> None:
    class Torn(list[tuple[int, str]]):
        """A log whose reading fails half-way."""

        def __iter__(self) -> Iterator[tuple[int, str]]:
            raise RuntimeError("half of the log cannot be read")

    with pytest.raises(RuntimeError, match="half of the log"):
        judge(GOOD, {"n0": Torn(GOOD_LOG)})
