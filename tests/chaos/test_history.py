"""The history file: what is written is what is read."""

from __future__ import annotations

import json

import pytest

from chaos.history import INFINITY, Kind, Operation, Outcome, read_history

OPERATIONS = [
    Operation("p1", Kind.APPEND, "a", 0.5, 1.5, Outcome.OK, 7),
    Operation("p2", Kind.APPEND, "b", 0.5, INFINITY, Outcome.INFO),
    Operation("p3", Kind.APPEND, "c", 0.5, 0.6, Outcome.FAIL),
    Operation("r1", Kind.READ, "a", 2.0, 2.5, Outcome.OK, 8),
]


def test_lines_come_back_as_they_were() -> None:
    lines = [operation.to_json() for operation in OPERATIONS]
    assert list(read_history([*lines, "", "\n"])) == OPERATIONS


def test_an_open_end_is_null() -> None:
    assert json.loads(OPERATIONS[1].to_json())["completed"] is None


def test_a_line_that_is_no_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="maybe"):
        list(read_history([OPERATIONS[0].to_json().replace('"ok"', '"maybe"')]))


def test_impossible_operations_are_refused() -> None:
    with pytest.raises(AssertionError):
        Operation("p", Kind.APPEND, "a", 2.0, 1.0, Outcome.FAIL)
    with pytest.raises(AssertionError):
        Operation("p", Kind.APPEND, "a", 1.0, 2.0, Outcome.OK)
