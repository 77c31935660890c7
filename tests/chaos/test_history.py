"""The history file: what is written is what is read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from chaos.history import INFINITY, Kind, Level, Operation, Outcome, read_history
from dledger.producers.durability import Durability

OPERATIONS = [
    Operation("p1", Kind.APPEND, "a", 0.5, 1.5, Outcome.OK, 7),
    Operation("p2", Kind.APPEND, "b", 0.5, INFINITY, Outcome.INFO),
    Operation("p3", Kind.APPEND, "c", 0.5, 0.6, Outcome.FAIL),
    Operation("r1", Kind.READ, "a", 2.0, 2.5, Outcome.OK, 8),
]


def test_lines_come_back_as_they_were() -> None:
    lines = [operation.to_json() for operation in OPERATIONS]
    assert list(read_history([*lines, "", "\n"])) == OPERATIONS


def test_the_level_comes_back_as_it_was() -> None:
    early = replace(OPERATIONS[0], level=Level.IN_MEMORY)
    assert list(read_history([early.to_json()])) == [early]
    assert json.loads(early.to_json())["level"] == Durability.MAJORITY_IN_MEMORY.value
    assert {level.value for level in Level} == {level.value for level in Durability}


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


@pytest.mark.parametrize("outcome", ["ok", "fail"])
def test_what_has_an_outcome_has_an_end(outcome: str) -> None:
    line = OPERATIONS[1].to_json().replace('"info"', f'"{outcome}"').replace("-1", "0")
    with pytest.raises(ValueError, match="without an end"):
        list(read_history([line]))


def test_polls_and_queues_come_back_as_they_were() -> None:
    poll = Operation("c1", Kind.POLL, "", 1.0, 2.0, Outcome.OK, 3, "orders/2", ((3, "a"), (5, "b")))
    fetch = Operation("c1", Kind.FETCH, "group", 2.0, 3.0, Outcome.OK, -1, "orders/2")
    assert list(read_history([poll.to_json(), fetch.to_json()])) == [poll, fetch]
