"""The age of the state applied here: reads of bounded staleness, on any replica.

    asked at 10.0 ─► ReadIndex ─► applied up to it at 10.3: what was acknowledged by 10.0 is here
    a read at 10.9 that may be 1 s old needs no round; one at 11.1 does, and begins another second

So a replica asks its leader once per bound, however many read. Only this replica's own clock is
used: other clocks may be wrong by anything, and one that jumps ahead makes a read dearer, not
older. The clock must not stand still: time in which a whole machine is suspended is not seen by
Linux's monotonic clock and comes on top.
"""

from __future__ import annotations

from collections.abc import Callable

from dledger.core.types import Index
from dledger.errors import DledgerError

Ready = Callable[[DledgerError | None], None]


class Freshness:
    """`proved_at`: everything acknowledged up to then is applied here; seconds of `now`."""

    def __init__(self) -> None:
        self.proved_at = float("-inf")

    def is_within(self, staleness: float, now: float) -> bool:
        """May a read be served that is at most so many seconds old? 0 wants proof from now on."""
        return staleness > 0.0 and now - self.proved_at <= staleness

    def proving(self, ready: Ready, asked_at: float) -> Ready:
        """`ready`, and a linearizable read that was asked for at `asked_at` proves that moment."""

        def proved(error: DledgerError | None) -> None:
            if error is None:
                self.proved_at = max(self.proved_at, asked_at)
            ready(error)

        return proved


class WaitingReads:
    """Reads that may be served once everything up to an index is applied."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Index, Ready]] = []

    def add(self, ready: Ready, index: Index, applied: Index) -> None:
        """Serve it now if so much is `applied`, else keep it."""
        if applied >= index:
            ready(None)
        else:
            self._waiting.append((index, ready))

    def serve(self, applied: Index) -> None:
        """Serve those that waited for no more than that."""
        if self._waiting:
            waiting = self._waiting
            self._waiting = [read for read in waiting if read[0] > applied]
            for index, ready in waiting:
                if index <= applied:
                    ready(None)

    def end(self, failure: DledgerError) -> None:
        """None of them is served any more."""
        waiting, self._waiting = self._waiting, []
        for _, ready in waiting:
            ready(failure)
