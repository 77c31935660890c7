"""Store stamps never go back (R24)."""

from __future__ import annotations

from cluster.core.store_time import StoreClock


def test_stamps_never_go_back() -> None:
    clock = StoreClock()
    assert [clock.stamp(ms) for ms in (100, 90, 101)] == [100, 100, 101]


def test_a_new_leader_continues_behind_the_logs_last_stamp() -> None:
    clock = StoreClock()
    clock.seen(5_000)
    clock.seen(4_000)
    assert clock.stamp(1_000) == 5_000
