"""The timer of a replica's nearest deadline; a host keeps that of a quiet one (alarms.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dledger.runtime.alarms import Alarms
from dledger.runtime.owned import Owned

#: uvloop's timers have milliseconds and may come half of one early; without a floor the rest of
#: the way would be spun.
TIMER_SECONDS_MIN = 0.001
_NEVER = float("inf")


class DueTimer:
    """`at`: when it will call, in the caller's seconds; infinite: never, until it is set again."""

    def __init__(
        self, call: Callable[[], object], owned: Owned, alarms: Alarms | None = None
    ) -> None:
        """`alarms`: of the host, if it has one."""
        self._call, self._owned, self._alarms = call, owned, alarms
        self._timer: asyncio.TimerHandle | None = None
        self.at = _NEVER

    def set(self, due: float, now: float, *, quiet: bool) -> None:
        """Call once at `due`, and at no earlier setting; `quiet`: or a moment later."""
        self.cancel()
        self.at = due
        alarms = self._alarms if quiet else None
        if alarms is None or not alarms.take(due, now, self._owned, self._fire):
            delay = max(TIMER_SECONDS_MIN, due - now)
            self._timer = self._owned.call_later(delay, self._fire)

    def cancel(self) -> None:
        """Do not call."""
        self.at = _NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self._alarms is not None:
            self._alarms.cancel(self._fire)

    def _fire(self) -> None:
        self._timer, self.at = None, _NEVER
        self._call()
