"""How far one log is applied here, and the calls that wait for an index."""

from __future__ import annotations

import asyncio
import heapq

from dledger.core.types import NO_INDEX, Index
from dledger.errors import NodeFailed, StateMachineFailed


class Applied:
    """Used on the event loop.

    Attributes:
        index: highest index that the state holds, -1 for none.
        seconds: time in the state machine since the start.
    """

    def __init__(self) -> None:
        self.index, self.seconds = NO_INDEX, 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # heap by index, number
        self._number = 0

    @property
    def waiting_count(self) -> int:
        """Calls that wait for an index."""
        return len(self._waiting)

    def reach(self, index: int) -> asyncio.Future[None]:
        """Done once entry `index` is applied; for one that is not yet."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._waiting, (index, self._number, done))
        return done

    def moved(self, last: Index) -> None:
        """The state holds all up to `last`: ends the waits for that."""
        self.index = last
        while self._waiting and self._waiting[0][0] <= last:
            done = heapq.heappop(self._waiting)[2]
            if not done.done():
                done.set_result(None)

    def fail(self, failure: NodeFailed) -> None:
        """No more entries are applied: waits end with it."""
        waiting, self._waiting = self._waiting, []
        for _, _, done in waiting:
            if not done.done():
                done.set_exception(failure)


def taken_of(taken: object, first: Index, last: Index, *, held: bool) -> Index:
    """The last entry that the user's machine has applied. Raises StateMachineFailed.

    `held`: it may be the one before `first`.
    """
    if type(taken) is not int or not first - held <= taken <= last:
        raise StateMachineFailed(
            first,
            f"apply was given {first} to {last} and returned {taken!r:.80}; return the last entry "
            "that was applied, or None for all",
        )
    return Index(taken)
