"""Store timestamps: never going back over the log, never running far ahead of the group (R24).

    store time = max(bounded now, last stamp in the log, uncommitted included)

`bounded now` caps a fast clock: a leader whose wall clock is ahead of the middle clock of the group
by more than `skew_ms_max` stamps that middle plus the allowance. Without the cap one wrong clock
would freeze the stamps of all later leaders until real time caught up.
"""

from __future__ import annotations

SKEW_MS_MAX = 5_000  # NTP keeps machines within tens of ms; seconds mean that something is broken


class StoreClock:
    """Stamps of one leadership; `observe` feeds what peers' clocks said."""

    def __init__(self, skew_ms_max: int = SKEW_MS_MAX) -> None:
        assert skew_ms_max >= 0
        self._skew_ms_max = skew_ms_max
        self._peer_skews_ms: dict[str, int] = {}
        self.last_ms = 0

    def observe(self, peer: str, skew_ms: int) -> None:
        """`skew_ms`: the peer's clock minus ours, as measured over a round trip."""
        self._peer_skews_ms[peer] = skew_ms

    @property
    def skew_ms(self) -> int:
        """How far our clock is ahead of the group's middle clock; 0 while no peer was heard."""
        skews = sorted([0, *self._peer_skews_ms.values()])
        return -skews[len(skews) // 2]

    def seen(self, stamp_ms: int) -> None:
        """A record of the log carries this stamp; later ones must not be below it."""
        if stamp_ms > self.last_ms:
            self.last_ms = stamp_ms

    def stamp(self, now_ms: int) -> int:
        """Stamp for records appended now, in ms since 1970."""
        if self._peer_skews_ms:
            ahead = self.skew_ms - self._skew_ms_max
            if ahead > 0:
                now_ms -= ahead
        if now_ms < self.last_ms:
            return self.last_ms
        self.last_ms = now_ms
        return now_ms
