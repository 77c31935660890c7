"""Where each record is: 32-byte slots in Java's index files (docs/spec/raft_log.md 1.5). A cache.

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

Entries that come one by one do not pay a write each: their slots are gathered, and written when
there are `GATHERED_BYTES_MAX` of them, with the next flush mark (50 ms), or before slots are
changed or synced. A crash loses the gathered ones as it may lose written ones.
"""

from __future__ import annotations

from typing import NamedTuple

from commitlog.files.system import Buffer, File
from commitlog.records.record import MAGIC_ENTRY, RecordHeader
from dledger.core.types import Index
from dledger.log.check import SLOT
from dledger.log.file_row import FileRow

SLOT_SIZE = SLOT.size
#: One block of most file systems, 128 entries.
GATHERED_BYTES_MAX = 4096


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
        self._gathered: list[Buffer] = []
        self._gathered_bytes = 0
        self._gathered_first = 0  # index of the record that the first of them names

    def begin_at(self, first: Index) -> None:
        """Make the first file, when there is none, for a log that begins at index `first`."""
        if not len(self.row):
            address = first * SLOT_SIZE
            self.row.first_file(address - address % self.row.file_size)

    def append(self, first: int, slots: Buffer) -> None:
        """Take the slots of new records, from index `first` on; write them now or soon.

        Calls follow each other without gaps; whatever else is done with slots settles first.
        """
        if not self._gathered:
            self._gathered_first = first
        self._gathered.append(slots)
        self._gathered_bytes += len(slots)
        if self._gathered_bytes >= GATHERED_BYTES_MAX:
            self.settle()

    @property
    def unwritten_from(self) -> int:
        """Index of the record of the first gathered slot; above every index when none is."""
        return self._gathered_first if self._gathered else 1 << 62

    def settle(self) -> None:
        """Write the gathered slots."""
        if self._gathered:
            gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
            slots = gathered[0] if len(gathered) == 1 else b"".join(gathered)
            self._write(self._gathered_first, slots)

    def write(self, first: int, slots: Buffer) -> None:
        """Write the slots of the records from index `first` on."""
        self.settle()
        self._write(first, slots)

    def _write(self, first: int, slots: Buffer) -> None:
        address = first * SLOT_SIZE
        while address + len(slots) > self.row.end:
            self.row.extend()
        self._touch(self.row.write(slots, address))

    def read(self, index: int) -> Slot | None:
        """The slot as it is on disk, or about to be; None where there is none."""
        address = index * SLOT_SIZE
        gathered_at = address - self._gathered_first * SLOT_SIZE
        if 0 <= gathered_at < self._gathered_bytes:
            packed = b"".join(self._gathered)[gathered_at : gathered_at + SLOT_SIZE]
        elif self.row.start <= address < self.row.end:
            packed = self.row.read(address, SLOT_SIZE)
        else:
            return None
        slot = Slot._make(SLOT.unpack(packed))
        if slot.magic != MAGIC_ENTRY or slot.index != index or slot.size <= 0:
            return None
        return slot

    def cut_after(self, last: int, old_last: int) -> None:
        """Zero the slots above `last`, which reach up to `old_last`; their files stay."""
        self.settle()
        address = (last + 1) * SLOT_SIZE
        self._touch(self.row.zero(address, (old_last + 1) * SLOT_SIZE))

    def cut_rest(self, last: int) -> None:
        """Zero all slots above `last`, and unlink the files behind it."""
        self.settle()
        address = (last + 1) * SLOT_SIZE
        self.row.drop_after(address)
        self.row.close_unlinked()
        self._touch(self.row.zero_rest(address))

    def take_dirty(self) -> list[File]:
        """The files written since the last call, by address; the caller syncs them."""
        self.settle()
        taken, self._dirty = self.row.in_order(self._dirty), []
        return taken

    def give_back(self, files: list[File]) -> None:
        """Mark files as dirty again: they were not synced after all."""
        self._touch(files)

    def _touch(self, files: list[File]) -> None:
        for file in files:
            if file not in self._dirty:
                self._dirty.append(file)
