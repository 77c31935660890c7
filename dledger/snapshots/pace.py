"""How fast a state is written, so that the disk has time for the log.

    write a piece ─► rest until its time is over ─► the next piece
    hurry         ─► no rest from now on: the node is being closed

A piece's time is its bytes by the rate; what its write and sync took counts as a part of it. A part
that was long in the making is followed by a rest of the same length at least: while Python makes
bytes no other thread has the interpreter, and that of the event loop gets it at rests alone without
having to wait for it.
Nothing is made up for: behind a slow piece the next one has its whole time. So a state takes its
bytes by the rate, and what the disk takes longer for single pieces.

A state that is written beside a log has a quarter of the rate, and the whole rate only for as many
bytes as the log grew by since the state was begun. So states take about as much of the disk as the
log does, where that is more than the quarter. Commands wait for a disk that is full of work; a
state has time, as the next one is worth its bytes only when the log has grown by as many.

A file that is written at a pace rests behind its syncs, too, as every large one does, by how long
they took (`commitlog`'s paced_sync.py). The longer of the two rests is taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from commitlog.files.system import Buffer
from dledger.snapshots.state_file import PIECE

#: Seconds of the longest rest behind the making of a part.
MAKING_REST_MAX = 0.1
#: Of the rate, for bytes beyond what the log grew by.
BESIDE_LOG_SHARE = 0.25


class Pace:
    """The pace of one state, or of several in turn; `hurry` may be called in any thread."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], object] | None = None,
        log_end: Callable[[], int] | None = None,
    ) -> None:
        """`bytes_per_second`: 0 for no rests; `rest`: returns early where `hurry` was called.

        `log_end`: the byte where the log ends now, asked in the thread that writes; None: there is
        no log beside.
        """
        self._rate, self._clock, self._log_end = bytes_per_second, clock, log_end
        self._hurried = threading.Event()
        self._rest = self._hurried.wait if rest is None else rest
        #: When the next piece may be written: by the rate, and by its share.
        self._due = self._share_due = float("-inf")
        self._begun_at = self._taken = 0

    def begin(self) -> None:
        """Begin a state: bytes that the log grows by count from here."""
        self._taken = 0
        if self._log_end is not None:
            self._begun_at = self._log_end()

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
        due = self._due if self._has_log_bytes_left() else self._share_due
        wait = max(due - self._clock(), min(made_in, MAKING_REST_MAX))
        if wait > 0:
            self._rest(wait)
        now = self._clock()
        self._due = now + size / self._rate
        self._share_due = now + size / (BESIDE_LOG_SHARE * self._rate)
        self._taken += size

    def _has_log_bytes_left(self) -> bool:
        log_end = self._log_end
        return log_end is None or self._taken <= log_end() - self._begun_at


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
