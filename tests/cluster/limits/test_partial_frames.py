"""Frames that have not come whole share one bound; the oldest of them goes first."""

from __future__ import annotations

from cluster.limits.partial_frames import PartialFrames


class Connection:
    def __init__(self, address: str) -> None:
        self.address, self.cut = address, False

    def abort(self) -> None:
        self.cut = True


def test_oldest_partial_frame_is_closed_when_all_are_too_large() -> None:
    frames = PartialFrames(bytes_max=100)
    first, second, third = (Connection(f"127.0.0.1:{port}") for port in (1, 2, 3))
    frames.holds(first, 40, began=False)
    frames.holds(second, 40, began=False)
    frames.holds(third, 30, began=False)
    assert (first.cut, second.cut, third.cut) == (True, False, False)
    assert frames.size == 70


def test_frame_that_grows_counts_once_and_keeps_its_age() -> None:
    frames = PartialFrames(bytes_max=100)
    first, second = Connection("127.0.0.1:1"), Connection("127.0.0.1:2")
    frames.holds(first, 10, began=False)
    frames.holds(second, 10, began=False)
    frames.holds(first, 95, began=False)
    assert (first.cut, second.cut) == (True, False)
    assert frames.size == 10


def test_connection_that_finishes_frames_is_the_youngest() -> None:
    frames = PartialFrames(bytes_max=100)
    busy, idle = Connection("127.0.0.1:1"), Connection("127.0.0.1:2")
    frames.holds(busy, 40, began=False)
    frames.holds(idle, 40, began=False)
    frames.holds(busy, 70, began=True)
    assert (busy.cut, idle.cut) == (False, True)


def test_connection_without_partial_frame_is_forgotten() -> None:
    frames = PartialFrames(bytes_max=100)
    first, second = Connection("127.0.0.1:1"), Connection("127.0.0.1:2")
    frames.holds(first, 60, began=False)
    frames.holds(first, 0, began=True)
    frames.holds(second, 90, began=False)
    frames.forget(second)
    assert not first.cut
    assert frames.size == 0
