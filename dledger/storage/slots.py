"""Where each record is: 32-byte slots in Java's index files (raft_log.md 1.5). A cache.

    off size
      0   4  magic      as the record's
      4   8  position   byte address of the record
     12   4  size       of the whole record
     16   8  index
     24   8  term

Slot address = index × 32. Slots are written with their records and synced seldom: a crash may leave
any of them zero or old, so a slot counts only when the record it points to has the same index,
term, position and size. Recovery rewrites those above the mark's `slots`; any other that turns out
wrong is rewritten when it is met, from the record before it.
"""

from __future__ import annotations

from typing import NamedTuple

from commitlog.files import Buffer, File
from commitlog.record import MAGIC_ENTRY, RecordHeader
from dledger.core.types import Index
from dledger.storage.check import SLOT
from dledger.storage.file_row import FileRow

SLOT_SIZE = SLOT.size


class Slot(NamedTuple):
    """The five fields, in file order."""

    magic: int
    position: int
    size: int
    index: int  # type: ignore[assignment]  # hides tuple.index
    term: int

    def names(self, header: RecordHeader) -> bool:
        """Is this the slot of that record?"""
        return self[1:] == (header.position, header.size, header.sequence, header.epoch)


class SlotFiles:
    """Slots of one log in a `FileRow`; remembers which files were written since their last sync."""

    def __init__(self, row: FileRow) -> None:
        assert row.file_size % SLOT_SIZE == 0, "a file holds whole slots"
        self.row = row
        self._dirty: list[File] = []

    def begin_at(self, first: Index) -> None:
        """Make the first file, when there is none, for a log that begins at index `first`."""
        if not len(self.row):
            address = first * SLOT_SIZE
            self.row.first_file(address - address % self.row.file_size)

    def write(self, first: int, slots: Buffer) -> None:
        """Write the slots of the records from index `first` on."""
        address = first * SLOT_SIZE
        while address + len(slots) > self.row.end:
            self.row.extend()
        self._touch(self.row.write(slots, address))

    def read(self, index: int) -> Slot | None:
        """The slot as it is on disk; None where there is none."""
        address = index * SLOT_SIZE
        if not self.row.start <= address < self.row.end:
            return None
        slot = Slot._make(SLOT.unpack(self.row.read(address, SLOT_SIZE)))
        if slot.magic != MAGIC_ENTRY or slot.index != index or slot.size <= 0:
            return None
        return slot

    def cut_after(self, last: int, old_last: int) -> None:
        """Zero the slots above `last`, which reach up to `old_last`, and unlink their files."""
        address = (last + 1) * SLOT_SIZE
        self.row.drop_after(address)
        self._touch(self.row.zero(address, (old_last + 1) * SLOT_SIZE))

    def cut_rest(self, last: int) -> None:
        """Zero whatever is above `last`, and unlink the files behind it."""
        address = (last + 1) * SLOT_SIZE
        self.row.drop_after(address)
        self.row.close_unlinked()
        self._touch(self.row.zero_rest(address))

    def take_dirty(self) -> list[File]:
        """The files written since the last call, by address; the caller syncs them."""
        taken, self._dirty = self.row.in_order(self._dirty), []
        return taken

    def give_back(self, files: list[File]) -> None:
        """They were not synced after all."""
        self._touch(files)

    def _touch(self, files: list[File]) -> None:
        for file in files:
            if file not in self._dirty:
                self._dirty.append(file)
