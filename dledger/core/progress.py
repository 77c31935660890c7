"""The leader's view of one follower.

              reject, disconnect, silence
        ┌───────────────────────────────────┐
        ▼                                   │
      PROBE ──── success ────────────► REPLICATE
      one message at a time,           many in flight, bounded by
      asks where the logs meet         frames and bytes

Pointers: `flushed ≤ matched < next ≤ last + 1`. `flushed` only grows within a leadership: it is
what the follower has on disk and equal to ours, the number that counts for commit. `matched` is
what it has written; a follower that crashes may lose the part above `flushed`.

A leadership makes its own Progress objects; nothing of an earlier one is used again (S5).
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

from dledger.core.types import NO_INDEX, Index


class Mode(enum.Enum):
    PROBE = "probe"
    REPLICATE = "replicate"


@dataclass(slots=True)
class Progress:
    """State about one follower within one leadership. Times are the driver's seconds."""

    next: Index
    heard_at: float
    progress_at: float
    mode: Mode = Mode.PROBE
    matched: Index = NO_INDEX
    flushed: Index = NO_INDEX
    round: int = 0
    sending: bool = False
    probe_at: float | None = None
    empty_probe: bool = False
    healthy_since: float | None = None
    in_flight: deque[tuple[Index, int]] = field(default_factory=deque)
    in_flight_bytes: int = 0

    def become_probe(self, *, next_index: Index | None = None, empty: bool = True) -> None:
        """Ask again where the logs meet; what was in flight is not waited for."""
        self.mode = Mode.PROBE
        self.probe_at = None
        self.empty_probe = empty
        self.in_flight.clear()
        self.in_flight_bytes = 0
        if next_index is not None:
            assert next_index > self.flushed, "what is on its disk is never sent again"
            self.next = next_index
            self.matched = min(self.matched, Index(next_index - 1))

    def become_replicate(self) -> None:
        self.mode = Mode.REPLICATE
        self.probe_at = None
        self.empty_probe = False

    def sent(self, last: Index, size: int) -> None:
        """A range up to `last` is on its way."""
        if last >= self.next:
            self.next = Index(last + 1)
            self.in_flight.append((last, size))
            self.in_flight_bytes += size

    def acknowledged(self, matched: Index, flushed: Index, now: float) -> bool:
        """Take a success in; True when something is new."""
        assert flushed <= matched
        news = flushed > self.flushed or matched > self.matched
        if news:
            self.progress_at = now
        self.matched = max(self.matched, matched)
        self.flushed = max(self.flushed, flushed)
        self.next = max(self.next, Index(self.matched + 1))
        while self.in_flight and self.in_flight[0][0] <= self.matched:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        return news

    def has_room(self, frames_max: int, bytes_max: int) -> bool:
        return len(self.in_flight) < frames_max and self.in_flight_bytes < bytes_max
