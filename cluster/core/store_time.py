"""Store timestamps: never going back over the log, never running far ahead of the group (R24).

    store time = max(bounded now, last stamp in the log, uncommitted included)

`bounded now` comes from the node's clock (dledger/runtime/group_clock.py). Without its bound one
wrong clock would freeze the stamps of all later leaders until real time caught up.
"""

from __future__ import annotations


class StoreClock:
    """Stamps of one node's leaderships."""

    def __init__(self) -> None:
        self.last_ms = 0

    def seen(self, stamp_ms: int) -> None:
        """A record of the log carries this stamp; later ones must not be below it."""
        if stamp_ms > self.last_ms:
            self.last_ms = stamp_ms

    def stamp(self, now_ms: int) -> int:
        """Stamp for records appended at the bounded time `now_ms`, in ms since 1970."""
        if now_ms < self.last_ms:
            return self.last_ms
        self.last_ms = now_ms
        return now_ms
