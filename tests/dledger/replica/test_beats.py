"""Hosts that watch each other (beats.py)."""

from __future__ import annotations

from dledger.core.types import NodeId
from dledger.replica.beats import Beats

N1, N2 = NodeId("n1"), NodeId("n2")


def beaten() -> Beats:
    """Both others have beaten at 0.0, hear this host, and were seen."""
    beats = Beats([N1, N2], 0.1, 0.6, 0.0)
    for peer in (N1, N2):
        beats.heard(peer, 0.0, hears_us=True)
    assert beats.look(0.1)
    assert beats.watched == {N1, N2}
    return beats


def test_a_host_that_does_not_beat_is_not_watched_any_more() -> None:
    beats = beaten()
    changed = []
    for step in range(2, 8):
        beats.heard(N1, step / 10, hears_us=True)
        changed.append(beats.look(step / 10))
    assert changed == [False] * 4 + [True, False]
    assert beats.watched == {N1}
    assert not beats.hears(N2, 0.7)


def test_a_host_that_does_not_hear_this_one_is_not_watched() -> None:
    beats = beaten()
    beats.heard(N2, 0.15, hears_us=False)
    assert beats.look(0.2)
    assert beats.watched == {N1}


def test_a_lost_connection_counts_at_once() -> None:
    beats = beaten()
    assert beats.lost(N1)
    assert not beats.lost(N1)
    assert beats.watched == {N2}
    assert not beats.hears(N1, 0.11)


def test_who_slept_has_lost_nobody_by_that() -> None:
    beats = beaten()
    assert not beats.look(9.0)
    assert beats.watched == {N1, N2}
    assert not beats.look(9.1)
    for step in range(2, 8):
        beats.look(9.0 + step / 10)
    assert not beats.watched


def test_a_host_that_is_always_late_misses_who_is_gone_all_the_same() -> None:
    """Its loop is busy with its groups, and every look is late."""
    beats = beaten()
    for step in range(1, 10):
        beats.heard(N1, 0.1 + 0.3 * step, hears_us=True)
        beats.look(0.1 + 0.3 * step)
    assert beats.watched == {N1}


def test_a_stranger_is_not_watched() -> None:
    beats = beaten()
    beats.heard(NodeId("n9"), 0.1, hears_us=True)
    assert not beats.look(0.2)
