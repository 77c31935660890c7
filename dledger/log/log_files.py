"""The open files of one log: data, slots, the tasks that hold one, space for the next records."""

from __future__ import annotations

from typing import Protocol

from commitlog.files.system import File
from dledger.core.types import Index
from dledger.log.file_row import FileRow
from dledger.log.log_tasks import LogSync, MarkSync
from dledger.log.port import SyncTask, WantedSpace
from dledger.log.slots import SLOT_SIZE, SlotFiles


class FileWork(Protocol):
    """A task from outside the log that reads or replaces bytes of its files in a thread."""

    def cut_after(self, index: Index) -> None:
        """Entries above `index` are about to be truncated: no write goes there from now on."""
        ...


class LogSpace:
    """Files and blocks for the next records, asked for before the records get their indexes.

        make      now, on the caller's thread: nearly always two comparisons, because files are made
                  and blocks allocated ahead (`FileRow.begin_prepare`)
        begin     what `make` lacks, as a task for a thread

    The rules number a record before it is written, and a record with a number cannot be refused any
    more. So a caller that hands records to the rules asks here first, and refuses them when a full
    disk has no file to write them into (L5).
    """

    def __init__(self, data: FileRow, slots: SlotFiles) -> None:
        self._data, self._slots = data, slots

    def make(self, wanted: WantedSpace) -> None:
        """Make sure that `wanted` can be written. Raises OSError; the log is as it was then."""
        begin, of_data = self._of_data(wanted)
        if of_data > self._data.space_end:
            self._data.make_space(begin, of_data)
        first, end = self._of_slots(wanted)
        if end > self._slots.row.space_end:
            self._slots.row.make_space(first, end)

    def begin(self, wanted: WantedSpace) -> SyncTask | None:
        """A task that makes the first part that is lacking; None when all of it is there."""
        slots = self._slots.row
        return self._data.begin_space(*self._of_data(wanted)) or slots.begin_space(
            *self._of_slots(wanted)
        )

    def _of_data(self, wanted: WantedSpace) -> tuple[int, int]:
        """Addresses from `begin` to `end`; an empty log's first record is in a file of its own.

        That begins behind the log's end, where the last file that went ended with a blank.
        """
        passed = max(0, self._data.start - wanted.begin)
        return wanted.begin + passed, wanted.end + passed

    def _of_slots(self, wanted: WantedSpace) -> tuple[int, int]:
        """Addresses of their slots, and of those before them that are not written yet."""
        first = min(wanted.first, self._slots.unwritten_from)
        return first * SLOT_SIZE, (wanted.last + 1) * SLOT_SIZE


class LogFiles:
    """Data files, slots, and the tasks that may hold one of them: at most one of each kind.

    Attributes:
        dirty: data files that were written since the last sync began; a few at most.
        sync, marking, work: the tasks under way; a file that is unlinked meanwhile stays open.
    """

    def __init__(self, data: FileRow, slots: SlotFiles) -> None:
        self.data, self.slots, self.space = data, slots, LogSpace(data, slots)
        self.dirty: list[File] = []
        self.sync: LogSync | None = None
        self.marking: MarkSync | None = None
        self.work: FileWork | None = None

    def files_left(self) -> None:
        """Files left the data row: those that are unlinked need no sync."""
        self.dirty = self.data.in_order(self.dirty)

    def close_unlinked(self) -> None:
        """Close files that were unlinked, once no task can hold one."""
        for row in (self.data, self.slots.row):
            if row.unlinked and not (self.sync or self.marking or self.work):
                row.close_unlinked()

    def begin_prepare(self, end: int, last: Index) -> SyncTask | None:
        """Task that makes the next file or gets its blocks, for a log that ends at `end`."""
        used = (last + 1) * SLOT_SIZE
        return self.data.begin_prepare(end) or self.slots.row.begin_prepare(used)

    def drop_unused(self, end: int, last: Index) -> None:
        """Unlink the files that were made ahead."""
        self.data.drop_after(max(end, self.data.start))
        self.slots.row.drop_after((last + 1) * SLOT_SIZE)

    def close(self) -> None:
        """Release every file; none is synced."""
        self.data.close()
        self.slots.row.close()
