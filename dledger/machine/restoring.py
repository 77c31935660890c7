"""A state is given to the machine in a thread, while the event loop serves heartbeats and others.

    start   the newest state ──► a thread: machine.restore_from, keep ─► adopted ─► it starts
    later   a leader's state ─┬► a thread: the same ──────────────────► adopted ─► its entries
                              └► the log goes on: written, acknowledged, committed, also as leader

From `take` until the state is adopted nothing is applied, captured, kept or read: the machine is
the thread's. A node that is closed waits for the thread.

The thread rests where the machine reads on, behind each ms of work for half of it: so the event
loop has the interpreter at once, not at each of its turns after 5 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from dledger.log.log_start import LogStart
from dledger.machine.applier import Applier
from dledger.machine.given import Given, give
from dledger.machine.keeping import Keeping
from dledger.runtime.owned import Owned
from dledger.snapshots.rests import Rests
from dledger.snapshots.state_file import StateFile


class Restored(NamedTuple):
    """`not_kept`: the error of the machine's `keep`; None: it has kept the state, if it does."""

    given: Given
    not_kept: Exception | None


class Restoring:
    """Gives one machine its states; used on its node's event loop, `give` apart.

    Attributes:
        may_read: set while the machine is not a thread's.
    """

    def __init__(
        self,
        applier: Applier[Any, Any],
        keeping: Keeping,
        owned: Owned,
        not_kept: Callable[[Exception], None],
    ) -> None:
        """`not_kept(error)`: the machine's `keep` raised, so its next start takes longer."""
        self._applier, self._keeping, self._owned = applier, keeping, owned
        self._not_kept = not_kept
        self._working: asyncio.Future[None] | None = None
        self._rests = Rests()
        self.may_read = asyncio.Event()
        self.may_read.set()

    def give(self, start: LogStart, state: StateFile) -> Restored:
        """Have the machine restore and keep a state up to `start`; in a thread, `adopt` follows.

        A state that a function is to put in place is kept behind that. Raises StateMachineFailed,
        OSError.
        """
        self._rests.begin()
        given = give(self._applier.machine, state, start.index, self._rests.between)
        error: Exception | None = None
        if given.finish is None:
            try:
                self._keeping.keep_given(start, given.head.pack())
            except Exception as raised:  # by the user's code; the log has all that led to it
                error = raised
        return Restored(given, error)

    def adopt(self, restored: Restored) -> None:
        """Go on behind the state. Raises StateMachineFailed."""
        self._applier.adopt(restored.given)
        error = restored.not_kept
        if restored.given.finish is not None:
            try:
                self._keeping.keep()
            except Exception as raised:  # as in `give`
                error = raised
        if error is not None:
            self._not_kept(error)

    def take(self, start: LogStart, state: StateFile, taken: Callable[[], None]) -> None:
        """Begin to give the machine a leader's state; `taken()` when it has it.

        What the machine raises ends the node.
        """
        assert self._working is None, "the replica takes no other state meanwhile"
        working = self._working = self._owned.loop.create_future()
        self._applier.begin(start.index)
        self.may_read.clear()
        restored: Restored | None = None
        error: Exception | None = None

        def work() -> None:
            nonlocal restored, error
            try:
                restored = self.give(start, state)
            except Exception as raised:
                error = raised

        def done() -> None:
            self._working = None
            working.set_result(None)
            if error is not None:
                raise error
            assert restored is not None
            self.adopt(restored)
            self.may_read.set()
            taken()

        self._owned.in_thread(work, done)

    async def readable(self) -> None:
        """Wait until the machine may be read: then it may in this turn of the loop."""
        while not self.may_read.is_set():
            await self.may_read.wait()

    async def ended(self, seconds: float) -> bool:
        """Wait so long for the thread, which rests no more. False: it still has the machine."""
        self._rests.hurry()
        if self._working is None:
            return True
        _, left = await asyncio.wait({self._working}, timeout=seconds)
        return not left
