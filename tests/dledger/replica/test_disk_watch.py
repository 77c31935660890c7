"""What is made of the times of syncs: stalled, recovering, good; and how long one takes."""

from __future__ import annotations

import pytest

from dledger.core.types import DiskHealth
from dledger.replica.disk_watch import LOOK_SECONDS, DiskWatch, SyncTimes

STALL, TRUST = 2.0, 30.0


class Watched:
    """A watch of two lanes."""

    def __init__(self) -> None:
        self.log, self.hard = SyncTimes(), SyncTimes()
        self.watch = DiskWatch(self.log, (self.hard,), STALL, TRUST)

    def health(self, now: float) -> DiskHealth:
        return self.watch.look(now).health

    def sync(self, begin: float, end: float) -> None:
        self.log.begin("log", begin)
        self.log.end(end)


@pytest.mark.parametrize("lane", ["log", "hard"])
def test_a_sync_that_does_not_come_back_is_a_stall_until_it_does(lane: str) -> None:
    watched = Watched()
    times: SyncTimes = getattr(watched, lane)
    times.begin(lane, 10.0)
    assert watched.health(11.99) is DiskHealth.GOOD
    found = watched.watch.look(12.0)
    assert found.health is DiskHealth.STALLED
    assert found.detail == f"a {lane} sync has not come back for 2.0 s"
    assert watched.health(40.0) is DiskHealth.STALLED
    times.end(40.1)
    assert watched.health(40.2) is DiskHealth.RECOVERING


def test_it_is_looked_for_when_it_becomes_one() -> None:
    watched = Watched()
    assert watched.watch.next_look(10.0) == 10.0 + LOOK_SECONDS
    watched.log.begin("log", 9.0)
    assert watched.watch.next_look(10.75) == 11.0
    watched.hard.begin("hard", 8.9)
    assert watched.watch.next_look(10.75) == pytest.approx(10.9)
    assert watched.watch.next_look(12.0) == 12.0 + LOOK_SECONDS


def test_a_disk_is_trusted_again_after_long_without_trouble() -> None:
    watched = Watched()
    watched.sync(10.0, 13.0)  # came back between two looks
    assert watched.health(13.1) is DiskHealth.RECOVERING
    assert watched.health(40.0) is DiskHealth.RECOVERING
    watched.sync(40.0, 42.0)  # once more: the wait begins again
    assert watched.health(42.1) is DiskHealth.RECOVERING
    assert watched.health(72.0) is DiskHealth.RECOVERING
    assert watched.health(72.2) is DiskHealth.GOOD


def test_no_room_is_told_until_there_is_some_and_a_stall_goes_before_it() -> None:
    watched = Watched()
    watched.watch.low = "producers are refused"
    assert watched.health(4.9) is DiskHealth.LOW
    watched.watch.full = "no space for another file"
    assert watched.watch.look(5.0).detail == "no space for another file"
    watched.log.begin("log", 5.0)
    assert watched.health(7.0) is DiskHealth.STALLED
    watched.log.end(7.1)
    assert watched.health(7.2) is DiskHealth.FULL
    watched.watch.full = watched.watch.low = ""
    assert watched.health(7.3) is DiskHealth.RECOVERING


def test_the_time_of_a_sync_is_an_average_that_a_burst_does_not_move_far() -> None:
    watched = Watched()
    now = 0.0
    for _ in range(20):
        now += 1.0
        watched.sync(now, now + 0.01)
        taken = watched.watch.look(now + 0.5).sync_seconds
    assert taken == pytest.approx(0.01)
    watched.sync(now + 0.6, now + 0.9)
    assert 0.01 < watched.watch.look(now + 1.0).sync_seconds < 0.1
    assert watched.watch.look(now + 7.0).sync_seconds == 0.0, "nothing was synced for long"
