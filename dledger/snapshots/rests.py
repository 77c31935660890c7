"""Rests of a thread that works for long, so that the event loop's thread gets the interpreter.

    piece, piece, … ─► a ms of work is over ─► rest half as long as it took ─► piece, …
    hurry           ─► no rest from now on: the node is being closed

One thread runs Python at a time, and another one that wants to waits for up to 5 ms, each time that
it comes back from the system. While this thread rests, none has to. Longer rests were measured to
help no more, and shorter ones less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Seconds of work between two rests, and of the longest rest: behind a piece that took long.
WORK_SECONDS, REST_MAX = 0.001, 0.1
#: Of the time that the work before it took.
REST_SHARE = 0.5


class Rests:
    """The rests of one thread; `hurry` may be called in any other."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], object] | None = None,
    ) -> None:
        """`rest`: returns early where `hurry` was called."""
        self._clock, self._hurried = clock, threading.Event()
        self._rest = self._hurried.wait if rest is None else rest
        self._begun = clock()

    def begin(self) -> None:
        """Work begins now: time before this is none of it."""
        self._begun = self._clock()

    def hurry(self) -> None:
        """No rest from now on."""
        self._hurried.set()

    def between(self) -> None:
        """Call it between two pieces of work: it rests if there was enough of it."""
        if self._hurried.is_set():
            return
        worked = self._clock() - self._begun
        if worked >= WORK_SECONDS:
            self._rest(min(worked * REST_SHARE, REST_MAX))
            self._begun = self._clock()
