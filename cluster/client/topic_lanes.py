"""Where one producer's messages of one topic go: its lanes, in order of their queues."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.client.lane import Lane
from cluster.errors import InvalidRequest
from cluster.protocol.route import TopicRoute


class TopicLanes:
    """`place` and `turn` say whose turn it is: one lane per turn of the event loop."""

    __slots__ = ("by_id", "lane", "lanes", "place", "route", "turn")

    lane: Lane
    """That of this turn."""

    def __init__(self) -> None:
        self.lanes: Sequence[Lane] = []
        self.by_id: dict[int, list[Lane]] = {}
        self.route: TopicRoute | None = None
        self.place = 0
        self.turn = -1

    def fill(self, route: TopicRoute, lanes: Sequence[Lane]) -> None:
        """The topic's queues are these now."""
        self.route, self.lanes = route, lanes
        self.by_id = {}
        for lane in lanes:
            self.by_id.setdefault(lane.queue.queue_id, []).append(lane)
        self.place %= max(len(lanes), 1)

    def of(self, queue_id: int) -> Lane:
        """The first lane to a queue of that number. Raises InvalidRequest."""
        lanes = self.by_id.get(queue_id)
        if not lanes:
            raise InvalidRequest(
                f"queue {queue_id} does not exist; name one of 0 to {max(self.by_id, default=-1)}"
            )
        return lanes[0]
