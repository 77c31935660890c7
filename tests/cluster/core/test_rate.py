"""Something may happen so often and no oftener (core/rate.py)."""

from __future__ import annotations

from cluster.core.rate import Rate


def test_burst_then_steady_rate() -> None:
    rate = Rate(2.0, 5)
    assert [rate.take(100.0) for _ in range(6)] == [True] * 5 + [False]
    assert rate.take(100.5)
    assert not rate.take(100.5)
    assert [rate.take(101.5) for _ in range(3)] == [True, True, False]


def test_pause_fills_no_more_than_a_burst() -> None:
    rate = Rate(2.0, 3)
    for _ in range(3):
        rate.take(0.0)
    assert [rate.take(1e6) for _ in range(4)] == [True, True, True, False]


def test_clock_that_stands_gives_nothing_new() -> None:
    rate = Rate(1000.0, 1)
    assert rate.take(7.0)
    assert not any(rate.take(7.0) for _ in range(10))
