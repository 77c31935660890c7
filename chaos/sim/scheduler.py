"""Virtual time: a heap of (when, number, action, argument); its events alone move the clock.

Two events of the same instant run in the order in which they were asked for, so a run is a
function of its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[Any], None]


class Scheduler:
    """`at` puts an event on the heap, `run_until` takes them off in order of time.

    Attributes:
        now: virtual time in seconds since the run began.
        handled: events run so far.
    """

    __slots__ = ("_heap", "_number", "handled", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.handled = 0
        self._heap: list[tuple[float, int, Action, Any]] = []
        self._number = 0

    def at(self, when: float, action: Action, argument: Any = None) -> None:
        """Run `action(argument)` at `when`, or now if that has passed."""
        self._number += 1
        heappush(
            self._heap, (when if when > self.now else self.now, self._number, action, argument)
        )

    def after(self, delay: float, action: Action, argument: Any = None) -> None:
        """Run `action(argument)` in `delay` seconds."""
        self._number += 1
        heappush(self._heap, (self.now + delay, self._number, action, argument))

    def run_until(self, end: float) -> None:
        """Run every event up to `end`, then set the clock to it."""
        heap = self._heap
        handled = 0
        try:
            while heap and heap[0][0] <= end:
                when, _, action, argument = heappop(heap)
                self.now = when
                handled += 1
                action(argument)
        finally:
            self.handled += handled
        self.now = end
