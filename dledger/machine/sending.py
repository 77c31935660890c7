"""Decides when a node's commands go to the log: at once, at the end of a loop's turn, or by timer.

    one command at a time      sent in the call itself, as there is none to send it with
    many, in one turn          the first asks for a call at the turn's end; all go together

A command is sent at once only if the one before it was sent alone, too. Otherwise the first command
of a burst would go ahead, and the others would wait for its sync and then for their own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from dledger.errors import DledgerError
from dledger.machine.outstanding import Done
from dledger.machine.proposer import Proposer
from dledger.runtime.replicated_log import ReplicatedLog

R = TypeVar("R")

#: Shortest time of a timer; a loop's clock may call it early by half as much.
TIMER_SECONDS_MIN = 0.001


class Sending:
    """Sends the commands of one node; used on its event loop."""

    def __init__(self, proposer: Proposer, log: ReplicatedLog, runs: Callable[[], bool]) -> None:
        self._proposer, self._log, self._runs = proposer, log, runs
        self._owned = log.owned
        self._flushing = self._was_alone = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def soon(self, *, may_be_now: bool = False) -> None:
        """Send all queued commands when this turn of the loop is over.

        `may_be_now`: send at once instead, while commands come one by one.
        """
        if self._flushing:
            return
        is_alone = may_be_now and self._was_alone and self._proposer.waiting_count == 1
        if is_alone and self._takes_calls():
            self._owned.on_own_behalf(self._owned.run, self._flush)
        else:
            self._flushing = True
            self._owned.call_soon(self._flush)

    def _takes_calls(self) -> bool:
        """May the log be called now, and not only when this turn is over?"""
        replica = self._log.driver.replica
        return self._runs() and replica.failure is None and not replica.in_event

    def set_timer(self) -> None:
        """Set the timer to the proposer's deadline, if that has become earlier."""
        now = self._owned.time()
        due = self._proposer.deadline(now)
        if due >= self._timer_at:
            return
        self.stop()
        self._timer_at = due
        self._timer = self._owned.call_later(max(TIMER_SECONDS_MIN, due - now), self._tick)

    def stop(self) -> None:
        """Stop the timer, so that no command is sent again."""
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._flushing = False
        self._was_alone = self._proposer.queued_count == 1
        if self._runs():
            self._proposer.flush(self._owned.time())
            self.set_timer()

    def _tick(self) -> None:
        self._timer, self._timer_at = None, math.inf
        if self._runs():
            self._proposer.tick(self._owned.time())
            self.set_timer()


def ends(future: asyncio.Future[R]) -> Done:
    """Make a function that ends the future with a command's result or error."""

    def done(result: object, error: DledgerError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # decoded as R

    return done
