"""Sums over the last minute, hour and day."""

from __future__ import annotations

import pytest

import cluster.core.statistics as module
from cluster.core.statistics import TOPIC_PUT_NUMS, Statistics


def test_sums_leave_their_windows() -> None:
    statistics = Statistics()
    for second in range(0, 120, 10):
        statistics.add(TOPIC_PUT_NUMS, "T", 5, float(second))
    found = statistics.recent(TOPIC_PUT_NUMS, "T", 119.0)
    assert found is not None
    assert (found.minute.sum, found.minute.tps, found.minute.average) == (30, 0.5, 5.0)
    assert (found.hour.sum, found.day.sum) == (60, 60)
    later = statistics.recent(TOPIC_PUT_NUMS, "T", 4_000.0)
    assert later is not None
    assert (later.minute.sum, later.hour.sum, later.day.sum) == (0, 0, 60)
    assert statistics.total(TOPIC_PUT_NUMS, "T") == 60
    assert statistics.tps(TOPIC_PUT_NUMS, "nothing", 0.0) == 0.0


def test_a_clock_that_jumps_far_empties_everything() -> None:
    statistics = Statistics()
    statistics.add(TOPIC_PUT_NUMS, "T", 5, 0.0)
    found = statistics.recent(TOPIC_PUT_NUMS, "T", 1e9)
    assert found is not None
    assert found.day.sum == 0


def test_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ITEMS_MAX", 2)
    statistics = Statistics()
    for name in "abc":
        statistics.add(TOPIC_PUT_NUMS, name, 1, 0.0)
    assert statistics.recent(TOPIC_PUT_NUMS, "a", 0.0) is None
    statistics.forget(["b"])
    assert [statistics.total(TOPIC_PUT_NUMS, name) for name in "abc"] == [0, 0, 1]
