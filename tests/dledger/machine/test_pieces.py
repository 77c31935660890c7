"""A log that is applied two entries at a time, beside all else that happens to a node.

Tests of nodes once more: leads that end, closed and restarted nodes, states that are sent to a node
with entries of its own left to apply.
"""

from __future__ import annotations

import pytest

from chaos.testing.cluster import run_subject
from chaos.testing.objects import OBJECTS
from dledger.replica import apply_pace

from .test_node import (
    make_group,
    test_a_machine_that_raises_stops_its_node_at_the_entry,
    test_a_restart_applies_the_same_again,
    test_close_ends_what_waits,
    test_commands_outlive_the_leader,
    test_many_commands_of_a_follower_are_applied_once_and_in_order,
    test_reads,
)
from .test_saving import (
    group,
    test_a_node_that_needs_what_is_gone_is_sent_the_state,
    test_a_restart_begins_with_the_newest_state,
)

__all__ = [
    "group",
    "make_group",
    "test_a_machine_that_raises_stops_its_node_at_the_entry",
    "test_a_node_that_needs_what_is_gone_is_sent_the_state",
    "test_a_restart_applies_the_same_again",
    "test_a_restart_begins_with_the_newest_state",
    "test_close_ends_what_waits",
    "test_commands_outlive_the_leader",
    "test_many_commands_of_a_follower_are_applied_once_and_in_order",
    "test_reads",
]


@pytest.fixture(autouse=True)
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_pace, "AT_ONCE", 2)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_right_under_faults(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    behind: list[int] = []
    through = apply_pace.ApplyPace.through

    def noted(pace: apply_pace.ApplyPace, applied: int, *rest: object) -> int:
        index = through(pace, applied, *rest)  # type: ignore[arg-type]
        behind.extend([applied] * pace.is_behind)
        return index

    monkeypatch.setattr(apply_pace.ApplyPace, "through", noted)
    assert run_subject(OBJECTS[name], 3).answered > 10
    assert len(behind) > 10, "turns that left entries for the next one"
