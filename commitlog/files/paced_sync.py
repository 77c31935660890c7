"""Syncs of a large file that is written beside other work of the same disk."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Rest after a sync, in times of how long it took, and at most so many seconds.
REST_RATIO, REST_SECONDS_MAX = 1.5, 0.1


class PacedSync:
    """Call it from the thread that writes, after each piece: it syncs, then rests.

    A log's sync waits for what the disk has in its queue. Written as fast as it goes, a file of a
    GiB fills that queue for seconds. With a rest behind each piece, two fifths of the disk's time
    go into the file; more of it where a piece takes so long that its rest is cut off, because a
    disk that is so slow would never come to the file's end.
    """

    def __init__(
        self,
        sync: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sync, self._clock, self._rest = sync, clock, rest

    def __call__(self) -> None:
        """Raises OSError."""
        begun = self._clock()
        self._sync()
        self._rest(min(REST_SECONDS_MAX, REST_RATIO * (self._clock() - begun)))
