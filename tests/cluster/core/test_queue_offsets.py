"""The leader's queue offsets: applied ends and its own proposals, dropped with leadership (R9)."""

from __future__ import annotations

from cluster.core.queue_offsets import LeaderQueueOffsets


class Applied:
    """The applied state's ends, as `AppliedState.queue_ends` gives them."""

    def __init__(self) -> None:
        self.ends = {"T": [3, 0]}

    def __call__(self, topic: str, queues: int) -> list[int]:
        ends = list(self.ends.get(topic, ()))
        return ends + [0] * (queues - len(ends))


def test_offsets_go_on_behind_the_applied_ones() -> None:
    offsets = LeaderQueueOffsets(Applied())
    assert offsets.take("T", 0) == 3
    assert offsets.take("T", 0, 4) == 4
    assert offsets.take("T", 0) == 8
    assert offsets.take("T", 1) == 0
    assert offsets.take("new", 2) == 0


def test_what_is_applied_later_does_not_move_the_table() -> None:
    """Own proposals become applied while the leadership lasts; they are counted already."""
    applied = Applied()
    offsets = LeaderQueueOffsets(applied)
    assert offsets.take("T", 0) == 3
    applied.ends["T"] = [4, 0]
    assert offsets.take("T", 0) == 4


def test_a_new_leadership_starts_from_what_was_applied() -> None:
    """Proposals of a lost leadership may never commit: their offsets are given out again."""
    applied = Applied()
    offsets = LeaderQueueOffsets(applied)
    for _ in range(10):
        offsets.take("T", 0)
    offsets.drop()
    applied.ends["T"] = [5, 0]  # two of the ten survived
    assert offsets.take("T", 0) == 5


def test_a_topic_may_get_more_queues() -> None:
    offsets = LeaderQueueOffsets(Applied())
    row = offsets.row("T", 2)
    offsets.take("T", 0)
    assert offsets.row("T", 4) is row
    assert row == [4, 0, 0, 0]
