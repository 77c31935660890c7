"""How fast a state is written, so that the disk has time for the log.

    write a piece ─► rest until its time is over ─► the next piece
    hurry         ─► no rest from now on: the node is being closed

A piece's time is its bytes by the rate; what its write and sync took counts as a part of it. A part
that was long in the making is followed by a rest of the same length at least: while Python makes
bytes no other thread has the interpreter, and that of the event loop gets it at rests alone without
having to wait for it.
Nothing is made up for: behind a slow piece the next one has its whole time. So a state takes its
bytes by the rate, and what the disk takes longer for single pieces. A file that is written so rests
behind its syncs, too, as every large one does, by how long they took (`commitlog`'s paced_sync.py):
the longer of the two rests is what there is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from commitlog.files.system import Buffer
from dledger.snapshots.state_file import PIECE

#: Seconds of the longest rest behind the making of a part.
MAKING_REST_MAX = 0.1


class Pace:
    """The pace of one state, or of several in turn; `hurry` may be called in any thread."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], object] | None = None,
    ) -> None:
        """`bytes_per_second`: 0 for no rests; `rest`: returns early where `hurry` was called."""
        self._rate, self._clock = bytes_per_second, clock
        self._hurried = threading.Event()
        self._rest = self._hurried.wait if rest is None else rest
        self._due = float("-inf")

    def now(self) -> float:
        """Seconds of the pace's clock."""
        return self._clock()

    def hurry(self) -> None:
        """No rest from now on."""
        self._hurried.set()

    def before(self, size: int, made_in: float = 0.0) -> None:
        """Rest until the time of the piece before is over; one of `size` bytes is next.

        `made_in`: seconds that it took to make it.
        """
        if not self._rate or self._hurried.is_set():
            return
        wait = max(self._due - self._clock(), min(made_in, MAKING_REST_MAX))
        if wait > 0:
            self._rest(wait)
        self._due = self._clock() + size / self._rate


#: Without rests, for what is small or is waited for.
AT_ONCE = Pace(0)


def pieces(parts: Iterable[Buffer], pace: Pace) -> Iterator[Buffer]:
    """The parts in pieces of at most a MiB, with rests in between."""
    begun = pace.now()
    for part in parts:
        made_in = pace.now() - begun
        for begin in range(0, len(part), PIECE):
            piece = part if len(part) <= PIECE else memoryview(part)[begin : begin + PIECE]
            pace.before(len(piece), made_in)
            made_in = 0.0
            yield piece
        begun = pace.now()
