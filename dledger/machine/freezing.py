"""A state that is taken in pieces on the event loop, each a few ms, while no command is applied.

    snapshot ─► a Freezing ─► pieces of this turn of the loop, of the next one, … ─► whole
                              commands wait; heartbeats, reads and other groups go on
    whole    ─► commands go on; a thread calls it for the state, which nothing changes any more

A machine whose commands change values in place returns it where a copy of all of them takes long.
The machine takes what is left before anything of it changes, so a state is right in any case; that
commands wait only keeps this from being done in one go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from dledger.machine.state_machine import State

P = TypeVar("P")

#: Seconds of one turn of the loop in which pieces are taken.
TURN_SECONDS = 0.002


class Freezing(Generic[P]):
    """The state of one moment; made, and taken, on the event loop.

    Attributes:
        taken: the pieces so far; is_whole: these are all.
    """

    def __init__(
        self,
        pieces: Iterator[P],
        state: Callable[[list[P]], State],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`state`: the state of all pieces, called in a thread."""
        self._pieces, self._state, self._clock = pieces, state, clock
        self.taken: list[P] = []
        self._error: Exception | None = None
        self.is_whole = False

    def go_on(self) -> bool:
        """Take pieces for one turn; True: it is whole. Raises the machine's errors."""
        if self._error is not None:
            raise self._error
        ends_at = self._clock() + TURN_SECONDS
        for piece in self._pieces:
            self.taken.append(piece)
            if self._clock() >= ends_at:
                return False
        self.is_whole = True
        return True

    def finish(self) -> None:
        """Take all pieces that are left, before something changes.

        Errors are raised when the state is asked for: a command that comes meanwhile is not to end
        by them.
        """
        try:
            self.taken.extend(self._pieces)
        except Exception as raised:
            self._error = raised.with_traceback(None)  # whose frames would have this state
        self.is_whole = True

    def __call__(self) -> State:
        """The state, in any thread once it is whole. Raises as `go_on`."""
        self.finish()
        if self._error is not None:
            raise self._error
        return self._state(self.taken)
