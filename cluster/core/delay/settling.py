"""Outcomes that a leader has proposed and that are not applied yet (R9, R17).

    may one be proposed for p?    p waits in the applied state, and none is on its way

Together with the fold that makes outcomes unique: what earlier leaderships logged is applied before
a leadership serves (its own no-op is behind it), what this one proposed is here.
"""

from __future__ import annotations

from collections.abc import Iterable


class Settling:
    """Addresses of deferred records. Emptied whenever a leadership begins or ends."""

    def __init__(self) -> None:
        self._positions: set[int] = set()

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, position: int) -> bool:
        """Is an outcome on its way?"""
        return position in self._positions

    def begin(self, position: int) -> bool:
        """An outcome is proposed; False when one is on its way already."""
        if position in self:
            return False
        self._positions.add(position)
        return True

    def done(self, positions: Iterable[int]) -> None:
        """Forget positions with an outcome that is applied, or was certainly not logged."""
        self._positions.difference_update(positions)

    def drop(self) -> None:
        """Leadership ended."""
        self._positions.clear()
