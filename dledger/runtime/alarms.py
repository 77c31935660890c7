"""Far deadlines of a host's groups, under its one timer: a quiet group has none of its own (R30).

    take ─► (when, call) of a part of a group     ring, at each look of the host ─► what is due

A call comes up to one look of the host late, so nothing is kept here that is due soon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dledger.runtime.owned import Owned


class Alarms:
    """The alarms of one host, on its event loop. An error in a call ends its `owned` only."""

    def __init__(self, every: float) -> None:
        """`every`: seconds between two rings."""
        self._every = every
        self._set: dict[Callable[[], Any], tuple[float, Owned]] = {}

    def __len__(self) -> int:
        """Calls that are not due yet."""
        return len(self._set)

    def take(self, at: float, now: float, owned: Owned, call: Callable[[], Any]) -> bool:
        """Call it at `at`, or within one ring of that, once; False: it is due too soon for that.

        A later `take` of the same call replaces this one.
        """
        if at - now < 2 * self._every or at == float("inf"):
            return False
        self._set[call] = at, owned
        return True

    def cancel(self, call: Callable[[], Any]) -> None:
        """Do not call it; without an effect where it is not set."""
        self._set.pop(call, None)

    def ring(self, now: float) -> None:
        """Make the calls that are due."""
        due = [(call, owned) for call, (at, owned) in self._set.items() if at <= now]
        for call, owned in due:
            if self._set.pop(call, None) is not None:  # an earlier one of these may have ended it
                owned.run(call)
