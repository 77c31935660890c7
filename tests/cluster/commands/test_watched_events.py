"""The events that `dledger cluster watch` tells: what changed between two looks."""

from __future__ import annotations

from cluster.commands.whole_cluster import State, events

WELL: State = {("cluster", "cluster"): "answers", ("leader", "g"): "n0 leads in term 1"}


def told(before: State | None, now: State) -> list[str]:
    return [f"{row['subject']}: {row['event']}" for row in events(before, now)]


def test_the_first_look_tells_all_and_the_next_one_changes_only() -> None:
    assert told(None, WELL) == ["cluster: answers", "g: n0 leads in term 1"]
    assert told(WELL, dict(WELL)) == []
    moved = {**WELL, ("leader", "g"): "n1 leads in term 2", ("node-down", "n0"): "critical: down"}
    assert told(WELL, moved) == ["g: n1 leads in term 2", "n0: critical: down"]
    assert told(moved, {**WELL, ("leader", "g"): "n1 leads in term 2"}) == [
        "n0: no longer: node-down"
    ]


def test_an_unreachable_cluster_ends_no_alert() -> None:
    hurt = {**WELL, ("disk", "n0"): "critical: full"}
    assert told(hurt, {("cluster", "cluster"): "no answer"}) == ["cluster: no answer"]
