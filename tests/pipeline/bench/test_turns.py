"""Variants take turns, and what is said of them is what was measured."""

from __future__ import annotations

from pipeline.bench.turns import Job, compared, take_turns


def test_everybody_has_a_turn_before_anybody_has_a_second() -> None:
    calls: list[str] = []
    jobs = {name: Job(10, lambda name=name: calls.append(name)) for name in ("a", "b")}
    rates = take_turns(jobs, 2)
    assert calls == ["a", "b"] * 3, "one that warms up, two that count"
    assert {name: len(found) for name, found in rates.items()} == {"a": 2, "b": 2}
    calls.clear()
    take_turns(jobs, 1, warm_ups=0)
    assert calls == ["a", "b"]


def test_medians_and_bests_beside_a_yardstick() -> None:
    found = compared({"ours": [100.0, 300.0, 200.0], "theirs": [400.0, 400.0, 1000.0]}, "theirs")
    assert found["ours"] == {
        "rows_per_s_median": 200,
        "rows_per_s_best": 300,
        "ratio_to_theirs": 0.5,
    }
    assert found["theirs"]["ratio_to_theirs"] == 1.0
