"""How long was the silence around a fault."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence


def gap_after(acknowledged_at: Sequence[float], moment: float, until: float) -> float:
    """Longest time without an acknowledgement that touches `moment`..`until`, in seconds.

    `acknowledged_at` is in order of time.
    """
    first = max(0, bisect.bisect_right(acknowledged_at, moment) - 1)
    last = bisect.bisect_right(acknowledged_at, until)
    points = list(acknowledged_at[first:last])
    if not points or points[0] > moment:
        points.insert(0, moment)
    if points[-1] <= moment:
        points.append(until)
    return max((b - a for a, b in itertools.pairwise(points)), default=0.0)


class Waiting:
    """Times in which messages waited for an acknowledgement and none came.

    Under a thin load most silence is only the pause between two sends; that is nobody's outage. So
    silence begins with a send, or with an acknowledgement while others still wait.
    """

    def __init__(self) -> None:
        self._count = 0
        self._since: float | None = None
        self._spans: list[tuple[float, float]] = []

    def sent(self, now: float) -> None:
        """A message was given to the producer."""
        self._count += 1
        if self._since is None:
            self._since = now

    def acknowledged(self, now: float) -> None:
        """Note that an operation was acknowledged."""
        assert self._since is not None, "only what was sent is acknowledged"
        self._count -= 1
        self._spans.append((self._since, now))
        self._since = now if self._count else None

    def failed(self) -> None:
        """Note that an operation was given up; the gap goes on until one is acknowledged."""
        self._count -= 1

    @property
    def nobody(self) -> bool:
        """True if no operation waits and none was given up since the last acknowledgement."""
        return self._since is None

    def longest(self, moment: float, until: float) -> float | None:
        """Returns the longest waiting span that touches `moment`..`until`, in seconds; None if no
        operation waited then."""
        spans = [span for span in self._spans if span[1] > moment and span[0] < until]
        if self._since is not None and self._since < until:
            spans.append((self._since, until))
        return max((end - begin for begin, end in spans), default=None)
