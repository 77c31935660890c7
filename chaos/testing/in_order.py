"""An applier that is refused entries out of order: each is given to it once, behind the one before.

The sessions hide an entry that is applied twice, and the judge sees commands only, so a mistake at
the end of a turn is told here, where it happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dledger.machine.applier import Applier
from dledger.machine.entries import Row


class InOrder(Applier[bytes, bytes]):
    """The applier of one process. Raises AssertionError for entries that are lost or repeated."""

    def apply(self, entries: Iterable[Row], *, leads: bool) -> None:
        """As the shipping one."""
        super().apply(self._each_once(entries), leads=leads)

    def _each_once(self, entries: Iterable[Row]) -> Iterator[Row]:
        index = self.applied
        for row in entries:
            assert row[0] == index + 1, f"entry {row[0]} is given to the machine behind {index}"
            index = row[0]
            yield row
