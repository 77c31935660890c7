"""Other groups of a node's host: they apply entries in the same turns of its loop.

    a neighbour has entries for 0.3 s ─► asks for its share of the turn ─► the loop is busy so long
                                      └► waits, as does the machine under test, for the next turns

They are no whole groups: each has nothing but times, drawn by the seed, in which it has entries to
apply. The turns that they share with the machine are the shipping ones (runtime/turns.py).
"""

from __future__ import annotations

from random import Random
from typing import Any, cast

from chaos.testing.virtual import VirtualOwned
from dledger.runtime.turns import Turns

#: How many a process has.
COUNTS = (0, 0, 0, 1, 3, 8)
#: Seconds of entries that come at once to one, and the longest time between two such.
BACKLOGS, GAP_SECONDS = (0.002, 0.02, 0.1, 0.4), 2.0
#: What is left of a backlog by rounding.
_NONE = 1e-6


class Neighbour:
    """One of them, beside the present process of a node."""

    def __init__(self, turns: Turns, owned: VirtualOwned, random: Random) -> None:
        self._owned, self._random, self._left = owned, random, 0.0
        self._share = turns.share(cast(Any, owned), self._take)
        self._pause()

    def _pause(self) -> None:
        self._owned.call_later(self._random.random() * GAP_SECONDS, self._come)

    def _come(self) -> None:
        self._left += self._random.choice(BACKLOGS)
        self._take()
        self._pause()

    def _take(self) -> None:
        seconds = self._share.ask()
        if seconds:
            taken = min(seconds, self._left)
            self._owned.spent += taken
            self._left -= taken
            self._share.took(taken)
        if self._left > _NONE:
            self._share.wait()


def neighbours(turns: Turns, owned: VirtualOwned, random: Random) -> list[Neighbour]:
    """Draw those of a new process."""
    return [Neighbour(turns, owned, random) for _ in range(random.choice(COUNTS))]
