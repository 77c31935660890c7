"""Counts the same complaint instead of repeating it, so that no stranger can fill a log.

A program that can connect can send nonsense as fast as the network carries it. The log tells the
1st, 2nd, 4th, 8th … of a kind and how many there were; after a quiet time the count begins again,
so that a complaint next year is logged at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

#: A kind that did not happen for this long is new when it happens again.
QUIET_SECONDS = 600.0
#: More kinds than these at once are counted as one, so that memory stays bounded.
KINDS_MAX = 64
OTHERS = "others"


class Tally:
    """Which occurrences of each kind are to be told; at most `kinds_max` + 1 counts are kept."""

    def __init__(
        self, now: Callable[[], float], *, told_first: int = 1, kinds_max: int = KINDS_MAX
    ) -> None:
        """`now`: seconds, never going back; `told_first`: so many are told one by one."""
        self._now, self._told_first, self._kinds_max = now, told_first, kinds_max
        self._counts: dict[str, tuple[int, float]] = {}  # the count, and when it last grew

    def due(self, kind: str) -> int:
        """Count one more of `kind`: how many there are when this one is to be told, else 0."""
        now = self._now()
        if kind not in self._counts and len(self._counts) >= self._kinds_max:
            self._forget_quiet(now)
            if len(self._counts) >= self._kinds_max:
                kind = OTHERS
        count, last = self._counts.get(kind, (0, now))
        if now - last >= QUIET_SECONDS:
            count = 0
        count += 1
        self._counts[kind] = count, now
        return count if count <= self._told_first or count & (count - 1) == 0 else 0

    def _forget_quiet(self, now: float) -> None:
        self._counts = {
            kind: (count, last)
            for kind, (count, last) in self._counts.items()
            if now - last < QUIET_SECONDS
        }


class Complaints:
    """Logs bad input from outside, less often the more of a kind there is; for one thread."""

    def __init__(self, log: logging.Logger, now: Callable[[], float]) -> None:
        """`now`: seconds of a clock that never goes back."""
        self._log, self._tally = log, Tally(now)

    def say(
        self,
        kind: str,
        sentence: str,
        *args: object,
        level: int = logging.WARNING,
        error: BaseException | None = None,
    ) -> None:
        """Log `sentence % args`, unless it is one of many of its kind; `error`: with its traceback.

        `kind` is a word of the code, never text that came from outside.
        """
        count = self._tally.due(kind)
        if count > 1:
            self._log.log(level, f"{sentence} (%d like it so far)", *args, count, exc_info=error)
        elif count:
            self._log.log(level, sentence, *args, exc_info=error)
