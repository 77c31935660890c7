"""Tells peers of our clocks every second, as long as there are some that no host tells (R24)."""

from __future__ import annotations

import asyncio

from dledger.runtime.group_clock import TELL_SECONDS
from dledger.runtime.owned import Owned
from dledger.runtime.transport import Transport


class ClockTelling:
    """Tells peers the clock of one replica, from `start` to `stop`."""

    def __init__(self, transport: Transport, owned: Owned) -> None:
        self._transport, self._owned = transport, owned
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        transport.clocks_wanted = self._wanted

    def start(self) -> None:
        """Tell the clock now, and again as long as there are peers to tell."""
        self._timer = None
        if self._transport.tell_clocks():
            self._timer = self._owned.call_later(TELL_SECONDS, self.start)

    def stop(self) -> None:
        """Tell no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wanted(self) -> None:
        if self._timer is None and not self._stopped:
            self._timer = self._owned.call_later(TELL_SECONDS, self.start)
