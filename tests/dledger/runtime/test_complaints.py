"""The same complaint is counted and told ever more seldom; memory is bounded."""

from __future__ import annotations

import logging

import pytest

from dledger.runtime.complaints import KINDS_MAX, QUIET_SECONDS, Complaints, Tally


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_powers_of_two_are_told() -> None:
    tally = Tally(Clock())
    assert [found for _ in range(9) if (found := tally.due("a"))] == [1, 2, 4, 8]


def test_first_ones_are_told_one_by_one_when_asked_for() -> None:
    tally = Tally(Clock(), told_first=3)
    assert [found for _ in range(9) if (found := tally.due("a"))] == [1, 2, 3, 4, 8]


def test_kinds_do_not_hide_each_other() -> None:
    tally = Tally(Clock())
    assert [tally.due("a"), tally.due("a"), tally.due("a"), tally.due("b")] == [1, 2, 0, 1]


def test_count_begins_again_after_a_quiet_time_only() -> None:
    clock = Clock()
    tally = Tally(clock)
    told = []
    for _ in range(3):
        clock.now += QUIET_SECONDS - 1
        told.append(tally.due("a"))
    clock.now += QUIET_SECONDS
    assert [*told, tally.due("a")] == [1, 2, 0, 1]


def test_kinds_without_number_are_counted_as_one() -> None:
    clock = Clock()
    tally = Tally(clock)
    told = sum(tally.due(f"kind {number}") > 0 for number in range(10_000))
    assert told <= KINDS_MAX + 14
    clock.now += QUIET_SECONDS
    assert tally.due("new") == 1, "the quiet ones make room"


def test_complaint_is_told_with_its_count(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("test"), Clock())
    for number in range(5):
        complaints.say("a", "connection of %s closed", number)
    assert [record.getMessage() for record in caplog.records] == [
        "connection of 0 closed",
        "connection of 1 closed (2 like it so far)",
        "connection of 3 closed (4 like it so far)",
    ]
