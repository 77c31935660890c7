"""When a node's proposer is called: at the end of the loop's turn, and when a command is due."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from dledger.errors import DledgerError
from dledger.machine.outstanding import Done
from dledger.machine.proposer import Proposer
from dledger.runtime.owned import Owned

R = TypeVar("R")

#: A timer is never set shorter, as a loop's clock may be early by half as much.
TIMER_SECONDS_MIN = 0.001


class Sending:
    """Sends the commands of one node; used on its event loop."""

    def __init__(self, proposer: Proposer, owned: Owned, runs: Callable[[], bool]) -> None:
        self._proposer, self._owned, self._runs = proposer, owned, runs
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def soon(self) -> None:
        """Send all that is queued when this turn of the loop is over."""
        if not self._flushing:
            self._flushing = True
            self._owned.call_soon(self._flush)

    def set_timer(self) -> None:
        """The next command may be due earlier than before."""
        now = self._owned.time()
        due = self._proposer.deadline(now)
        if due >= self._timer_at:
            return
        self.stop()
        self._timer_at = due
        self._timer = self._owned.call_later(max(TIMER_SECONDS_MIN, due - now), self._tick)

    def stop(self) -> None:
        """No command is sent again."""
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._flushing = False
        if self._runs():
            self._proposer.flush(self._owned.time())
            self.set_timer()

    def _tick(self) -> None:
        self._timer, self._timer_at = None, math.inf
        if self._runs():
            self._proposer.tick(self._owned.time())
            self.set_timer()


def ends(future: asyncio.Future[R]) -> Done:
    """A function that gives the future its result or error."""

    def done(result: object, error: DledgerError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # decoded as R

    return done
