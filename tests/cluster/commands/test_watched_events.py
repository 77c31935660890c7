"""The events that `dledger cluster watch` tells: what changed between two looks."""

from __future__ import annotations

from cluster.commands.whole_cluster import State, events

ANSWERS: State = {("cluster", "cluster"): ("answers", "answers")}
WELL: State = {**ANSWERS, ("leader", "g"): ("n0 leads in term 1", "n0 leads in term 1")}


def told(before: State | None, now: State) -> list[str]:
    return [f"{row['subject']}: {row['event']}" for row in events(before, now)]


def test_the_first_look_tells_all_and_the_next_one_changes_only() -> None:
    assert told(None, WELL) == ["cluster: answers", "g: n0 leads in term 1"]
    assert told(WELL, dict(WELL)) == []
    words = "n1 leads in term 2"
    later = {**WELL, ("leader", "g"): (words, words)}
    moved = {**later, ("node-down", "n0"): ("critical", "critical: down")}
    assert told(WELL, moved) == ["g: n1 leads in term 2", "n0: critical: down"]
    assert told(moved, later) == ["n0: no longer: node-down"]


def test_an_alert_whose_figures_change_is_told_once() -> None:
    filling = [
        {**WELL, ("disk-filling", "n0"): ("warning", f"warning: {used} % full")}
        for used in (86, 87)
    ]
    assert told(*filling) == []
    worse = {**WELL, ("disk-filling", "n0"): ("critical", "critical: 99 % full")}
    assert told(filling[1], worse) == ["n0: critical: 99 % full"]


def test_an_unreachable_cluster_ends_no_alert() -> None:
    hurt = {**WELL, ("disk", "n0"): ("critical", "critical: full")}
    lost: State = {("cluster", "cluster"): ("no answer", "no answer")}
    assert told(hurt, lost) == ["cluster: no answer"]
