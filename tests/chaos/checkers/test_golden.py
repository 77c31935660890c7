"""Every golden anomaly is flagged under its name, and nothing else is said about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checkers.beginnings import with_deleted
from chaos.checkers.levels import take_back
from chaos.checkers.search import is_linearizable
from chaos.checkers.verdict import Word
from chaos.history import Kind
from tests.chaos.checkers.golden_cases import FOLDER, Case, cases

ANOMALIES_MIN = 60  # the goal of docs/spec/chaos.md 6

# What the order of effects within one queue can show; the rest is about consumers and replicas.
_OF_ORDER = {
    "lost-prefix",
    "lost-middle",
    "lost-postfix",
    "duplicate",
    "unexpected",
    "G1a",
    "G0-realtime",
    "stale-read",
    "precommitted-read",
    "nonmonotonic-read",
    "inconsistent-offsets",
}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_named_as_it_is(case: Case) -> None:
    verdict = case.judged()
    assert {anomaly.name for anomaly in verdict.anomalies} == case.expected, verdict.anomalies
    assert verdict.word is (Word.INVALID if case.expected else Word.VALID)


@pytest.mark.parametrize("case", cases(FOLDER / "runs"), ids=lambda case: case.name)
def test_of_a_run_named_as_it_is(case: Case) -> None:
    verdict = case.judged_as_a_run()
    assert {anomaly.name for anomaly in verdict.anomalies} == case.expected, verdict.anomalies
    assert case.judged().anomalies == ()  # only what nodes told shows it


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_search_agrees(case: Case) -> None:
    """About appends and reads; consumers and groups are not its business, and are left out."""
    case = replace(case, history=[op for op in case.history if op.kind in (Kind.APPEND, Kind.READ)])
    history, _ = take_back(case.history, case.replicas.values(), case.blackouts)
    explained = all(
        is_linearizable(part, with_deleted(part, replica.get(queue, ()), case.begins))
        for replica in case.replicas.values()
        for queue in {op.log for op in history} | set(replica)
        for part in [[op for op in history if op.log == queue]]
    )
    named = {anomaly.name for anomaly in case.judged().anomalies}
    assert explained is not bool(named & _OF_ORDER), named


def test_there_are_enough_of_them() -> None:
    assert sum(bool(case.expected) for case in cases()) >= ANOMALIES_MIN
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
