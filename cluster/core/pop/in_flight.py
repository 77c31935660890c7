"""Proposals of a leader about messages and queues that are not applied yet (R9).

An acknowledgement that is on its way must not be overtaken by the timer that gives the message
again, nor a message be hidden twice, nor an ordered queue be opened meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class InFlight(Generic[Key]):
    """How often each key is on its way. Emptied whenever a leadership begins or ends."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self._epoch = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._counts

    def __len__(self) -> int:
        return len(self._counts)

    def begin(self, keys: Iterable[Key]) -> int:
        """Note that `keys` are proposed; give the returned epoch to `done`."""
        for key in keys:
            self._counts[key] = self._counts.get(key, 0) + 1
        return self._epoch

    def done(self, keys: Iterable[Key], epoch: int) -> None:
        """Forget keys that are applied, or will not be."""
        if epoch != self._epoch:
            return  # of an earlier leadership
        for key in keys:
            left = self._counts[key] - 1
            if left:
                self._counts[key] = left
            else:
                del self._counts[key]

    def drop(self) -> None:
        """A leadership began or ended."""
        self._counts.clear()
        self._epoch += 1
