"""The time of day that stamps of seals are compared with: one window's own, in ms since 1970.

A stamp that was taken once must never be taken again when the window has forgotten its seal. So
this time follows the machine's clock, and where that is behind it, it must not simply go back:

    the clock is ahead by more than TOLERATED   it follows at once (a machine that slept)
    it is behind                                it goes on at SLEW_RATE until the clock has caught
                                                up: slower than usual, never back
    it is behind by more than BEHIND, and no    it goes back to the clock at once (a clock that was
    seal was taken with stamps of that time     ahead when the server started, or for a while)

After a step back the stamps that were taken before it lie ahead, a *spent* range. None of them is
taken again: when this time comes to the range it passes over it at once, and the clock catches up
as above. Ranges are kept for as long as the server runs, in a few pairs of numbers. A leader puts
the stamps of changes that it takes into the log, as store times, so the next leader, or this node
after a restart, counts everything up to there as spent (`spend_until`).

At SLEW_RATE a stamp stays good for (BEHIND + AHEAD) / SLEW_RATE seconds: less than the window
remembers its seal (single_use.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STAMP_BEHIND_SECONDS: Final = 30.0
STAMP_AHEAD_SECONDS: Final = 1.0  # short: a leader that begins cannot know what was stamped ahead
SLEW_RATE: Final = 0.6  # seconds of this time in one of the machine's
SPENT_COUNT_MAX: Final = 16

_BEHIND_MS = STAMP_BEHIND_SECONDS * 1000
_AHEAD_MS = STAMP_AHEAD_SECONDS * 1000
_TOLERATED_MS = 1000.0


class SealTime:
    """`now`: seconds of a clock that never goes back; `clock_ms`: the time of day."""

    def __init__(self, now: Callable[[], float], clock_ms: Callable[[], float]) -> None:
        self._now, self._clock_ms = now, clock_ms
        self._at = now()
        self._ahead_ms = clock_ms() - self._at * 1000  # this time less that of `now`
        self._slewed_at = float("-inf")
        self._taken: tuple[float, float] | None = None  # lowest and highest stamp since a step
        self._spent: list[tuple[float, float]] = []  # the same of before the steps

    def read(self) -> float:
        """This time, in ms."""
        now, clock = self._now(), self._clock_ms()
        passed, self._at = now - self._at, now
        time = now * 1000 + self._ahead_ms
        if clock - time > _TOLERATED_MS:
            if clock - time > _BEHIND_MS:
                self._spend()
            time = self._set(clock)
        elif time - clock > _BEHIND_MS and self._is_unused(clock):
            self._spend()
            time = self._set(clock)
        elif time - clock > _TOLERATED_MS:
            time = self._set(max(clock, time - passed * 1000 * (1 - SLEW_RATE)))
            self._slewed_at = now
        for lowest, highest in self._spent:
            if lowest - _AHEAD_MS <= time < highest:
                time = self._set(highest)
        return time

    def _set(self, time: float) -> float:
        self._ahead_ms = time - self._at * 1000
        return time

    def takes(self, stamp_ms: float) -> bool:
        """Is the stamp of now, and of no range that is spent?"""
        age = self.read() - stamp_ms
        return -_AHEAD_MS <= age <= _BEHIND_MS and not self._is_spent(stamp_ms)

    def taken(self, stamp_ms: float) -> None:
        """A seal with this stamp was good."""
        lowest, highest = self._taken or (stamp_ms, stamp_ms)
        self._taken = min(lowest, stamp_ms), max(highest, stamp_ms)

    def spend_until(self, stamp_ms: float) -> None:
        """Stamps from now to this one may have been taken by a leader before."""
        time = self.read()
        if stamp_ms > time:
            self._add_spent((time, stamp_ms))

    def latest_at(self, since: float) -> float:
        """The latest value, in ms, that this time can have had at `since` (seconds of `now`).

        But for a step back since then: what was taken before that is spent.
        """
        rate = SLEW_RATE if since < self._slewed_at else 1.0
        return self.read() - (self._now() - since) * 1000 * rate

    def _is_spent(self, stamp_ms: float) -> bool:
        return any(lowest <= stamp_ms <= highest for lowest, highest in self._spent)

    def _is_unused(self, clock: float) -> bool:
        """Were only seals taken that are too old at `clock`, or too new?"""
        ranges = [*self._spent, *([self._taken] if self._taken is not None else [])]
        return all(
            highest < clock - _BEHIND_MS or lowest > clock + _AHEAD_MS for lowest, highest in ranges
        )

    def _spend(self) -> None:
        """A step of the clock: refuse the stamps up to the newest taken one from now on."""
        if self._taken is None:
            return
        spent, self._taken = self._taken, None
        self._add_spent(spent)

    def _add_spent(self, spent: tuple[float, float]) -> None:
        self._spent.append(spent)
        if len(self._spent) > SPENT_COUNT_MAX:  # refuses what lies between the first two, too
            self._spent.sort()
            (lowest, first), (_, second) = self._spent[:2]
            self._spent[:2] = [(lowest, max(first, second))]
