"""Rows with changes that are logged and not applied yet, and requests that wait for these.

    change proposed ─► logged(change, names) ─► is_changing(name) ─► ended(change, error)
                                                └► when_settled(name, then) ─► then(error or None)

A request that is judged by the table alone does not see such changes: a creation would be dropped
where another one stands in front of it, and answered as done. Used on a leader.
"""

from __future__ import annotations

from cluster.broker.kernel.write.own_records import Done
from dledger.errors import NotLeader


class RowsInLog:
    """By name: of topics, or of consumer groups."""

    def __init__(self) -> None:
        self._changes: dict[object, frozenset[str]] = {}
        self._waiting: dict[str, list[Done]] = {}

    def __len__(self) -> int:
        """How many changes are on their way."""
        return len(self._changes)

    def is_changing(self, name: str) -> bool:
        """Is a change of the row logged and not applied?"""
        return any(name in names for names in self._changes.values())

    def when_settled(self, name: str, then: Done) -> None:
        """Call `then` when no change of the row is on its way; with its error if one failed."""
        self._waiting.setdefault(name, []).append(then)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    def logged(self, change: object, names: frozenset[str]) -> None:
        """A change of these rows is on its way."""
        self._changes[change] = names

    def ended(self, change: object, error: Exception | None) -> None:
        """A change is applied, or failed; one of an earlier leadership changes no wait."""
        for name in self._changes.pop(change, ()):
            if name in self._waiting and not self.is_changing(name):
                for then in self._waiting.pop(name):
                    then(error)

    def leadership_ended(self) -> None:
        """Tell all requests that wait to ask the next leader: their changes are in no log."""
        self._changes.clear()
        waiting, self._waiting = self._waiting, {}
        for all_then in waiting.values():
            for then in all_then:
                then(NotLeader(None))
