"""Store stamps never go back and never run ahead of the group's middle clock (R24)."""

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


def test_a_fast_clock_is_bounded_by_the_group() -> None:
    """An hour ahead of two others: stamps are at most the allowance ahead, not an hour."""
    clock = StoreClock(skew_ms_max=5_000)
    now, hour = 10_000_000, 3_600_000
    clock.observe("n1", -hour)
    clock.observe("n2", -hour + 20)
    assert clock.skew_ms == hour - 20
    assert clock.stamp(now) == now - (hour - 20) + 5_000


def test_one_odd_peer_does_not_move_a_sound_clock() -> None:
    clock = StoreClock()
    clock.observe("n1", -3_600_000)
    clock.observe("n2", 3)
    assert clock.stamp(10_000_000) == 10_000_000
