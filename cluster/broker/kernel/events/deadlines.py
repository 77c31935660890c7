"""Until when requests wait: one timer of the event loop for all of them.

A request that is answered before its time stays listed until that time, so adding and answering are
cheap; its callback then checks if there is still work to do. An owner that may replace its items
many times before that drops them: then at most as many of them are kept as are listed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

DROPPED_MIN = 64
"""So many dropped items are kept at least before those that are listed are looked through."""


class Deadlines(Generic[T]):
    """Calls `expire(number, item)` when the time of an item is over.

    Numbers grow and are never used again. Times are seconds of the event loop's clock.
    """

    def __init__(
        self,
        expire: Callable[[int, T], None],
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._expire_one, self._now, self._call_at = expire, now, call_at
        self._heap: list[tuple[float, int, T]] = []
        self._dropped: set[int] = set()
        self._number = 0
        self._timer_at = float("inf")

    def add(self, item: T, seconds: float) -> int:
        """Add an item that is due in `seconds`; returns its number."""
        self._number += 1
        due = self._now() + seconds
        heapq.heappush(self._heap, (due, self._number, item))
        self._arm(due)
        return self._number

    def drop(self, number: int) -> None:
        """Never call for this item, which is listed still."""
        self._dropped.add(number)
        if len(self._dropped) > max(len(self._heap) // 2, DROPPED_MIN):
            self._heap = [row for row in self._heap if row[1] not in self._dropped]
            heapq.heapify(self._heap)
            self._dropped.clear()

    def clear(self) -> dict[int, T]:
        """Forget all deadlines; returns the listed items, by number."""
        listed = {number: item for _, number, item in self._heap if number not in self._dropped}
        self._heap.clear()
        self._dropped.clear()
        return listed

    def _arm(self, due: float) -> None:
        if due < self._timer_at:
            self._timer_at = due
            self._call_at(due, self._expire)

    def _expire(self) -> None:
        self._timer_at = float("inf")
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            _, number, item = heapq.heappop(self._heap)
            if number in self._dropped:
                self._dropped.remove(number)
            else:
                self._expire_one(number, item)
        if self._heap:
            self._arm(self._heap[0][0])
