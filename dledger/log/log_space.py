"""Files and blocks for the next records, asked for before the records get their indexes.

    make      now, on the caller's thread: nearly always two comparisons, because files are made and
              blocks allocated ahead (`FileRow.begin_prepare`)
    begin     what `make` lacks, as a task for a thread

The rules number a record before it is written, and a record with a number cannot be refused any
more. So whoever hands records to the rules asks here first, and refuses them when a full disk has
nothing to write them into (L5).
"""

from __future__ import annotations

from dledger.log.file_row import FileRow
from dledger.log.port import SyncTask, WantedSpace
from dledger.log.slots import SLOT_SIZE, SlotFiles


class LogSpace:
    """Of one log in files."""

    def __init__(self, data: FileRow, slots: SlotFiles) -> None:
        self._data, self._slots = data, slots

    def make(self, wanted: WantedSpace) -> None:
        """Make sure that `wanted` can be written. Raises OSError; the log is as it was then."""
        self._data.make_space(wanted.begin, wanted.end)
        self._slots.row.make_space(*self._of_slots(wanted))

    def begin(self, wanted: WantedSpace) -> SyncTask | None:
        """A task that makes the first part that is lacking; None when all of it is there."""
        slots = self._slots.row
        return self._data.begin_space(wanted.begin, wanted.end) or slots.begin_space(
            *self._of_slots(wanted)
        )

    def _of_slots(self, wanted: WantedSpace) -> tuple[int, int]:
        """Addresses of their slots, and of those before them that are not written yet."""
        first = min(wanted.first, self._slots.unwritten_from)
        return first * SLOT_SIZE, (wanted.last + 1) * SLOT_SIZE
