"""Reading what is not in the tail cache: pread, verify, and mend the index slots on the way.

Everything here believes the data files only. A slot that does not agree with its record is
rewritten from the record before it; when the record itself is not what follows from that one, it
is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.record import HEADER_SIZE, MAGIC_ENTRY, RecordHeader, unpack_header
from dledger.core.types import NO_ENTRY, EntryId, Index, Term, TermRun
from dledger.storage.check import Checked, Tail, check_records
from dledger.storage.file_row import FileRow
from dledger.storage.slots import SlotFiles

SCAN_SIZE = 1 << 20  # bytes read at a time; more only for a larger record


class Piece(NamedTuple):
    """Verified bytes in a row: `data` begins at `start.end` and holds whole records."""

    start: Tail
    data: memoryview
    checked: Checked


def scan(row: FileRow, start: Tail, zero_below: int, end: int) -> Iterator[Piece]:
    """Verified pieces from `start` on, up to address `end` at most.

    The last piece says in `checked.reason` why it ended; it may be empty.
    """
    want = SCAN_SIZE
    while True:  # each turn gets further in the row, or asks for twice as much of it
        size = min(want, end - start.end)
        data = memoryview(row.read(start.end, size))
        checked = check_records(data, start, row.file_size, zero_below)
        piece = Piece(start, data[: checked.tail.end - start.end], checked)
        all_read = len(data) < size or start.end + len(data) >= end
        if all_read or (checked.reason and not checked.cut_short):
            yield piece
            return
        if checked.slots:
            yield piece
        want = SCAN_SIZE if checked.slots else want * 2
        start = checked.tail


class ColdReader:
    """Records and slots of a log on disk. The caller keeps indexes within the log."""

    def __init__(self, data: FileRow, slots: SlotFiles, first: Index, zero_below: int) -> None:
        self._data, self._slots = data, slots
        self.first = first
        self._zero_below = zero_below

    @property
    def anchor(self) -> Tail:
        """What the first record of the log continues."""
        if self.first == 0:
            return Tail(NO_ENTRY, 0, self._data.start)
        return Tail(EntryId(NO_ENTRY.term, Index(self.first - 1)), None, self._data.start)

    def header(self, index: int) -> RecordHeader:
        """Header of the record `index`; its slot and its place agree. Raises StoreDamaged."""
        return self._by_slot(index) or self._mend(index)

    def slot_agrees(self, index: int) -> bool:
        """Does the slot on disk name the record that it points to?"""
        return self._by_slot(index) is not None

    def tail(self, index: int) -> Tail:
        """What the record `index + 1` continues."""
        if index < self.first:
            return self.anchor
        header = self.header(index)
        end = header.position + header.size
        return Tail(EntryId(Term(header.epoch), Index(index)), header.chain_crc, end)

    def _by_slot(self, index: int) -> RecordHeader | None:
        slot = self._slots.read(index)
        if slot is None or not self._data.start <= slot.position <= self._data.end - HEADER_SIZE:
            return None
        header = unpack_header(self._data.read(slot.position, HEADER_SIZE))
        return header if header.magic == MAGIC_ENTRY and slot.names(header) else None

    def _mend(self, index: int) -> RecordHeader:
        """Rewrite the slots before and at `index` from the records, verifying each."""
        known, step = index - 1, 1
        while known >= self.first and self._by_slot(known) is None:
            known, step = known - step, step * 2
        start = self.tail(known) if known >= self.first else self.anchor
        for piece in scan(self._data, start, self._zero_below, self._data.end):
            checked = piece.checked
            if checked.slots:
                self._slots.write(piece.start.id.index + 1, b"".join(checked.slots))
            if checked.tail.id.index >= index:
                break
            if checked.reason and not checked.cut_short:
                raise self.damage(checked.tail.end, checked.reason)
        header = self._by_slot(index)
        if header is None:
            raise self.damage(start.end, f"record {index} is not there")
        return header

    def damage(self, position: int, reason: str) -> StoreDamaged:
        path = ""
        if self._data.start <= position < self._data.end:
            path = str(self._data.file_at(position)[0].path)
        return StoreDamaged(reason, path=path, position=position)

    def read(self, first: int, end: int, size_max: int) -> Piece:
        """Verified records from `first` on, up to address `end`, where a record ends.

        At most `size_max` bytes, but at least one record. Stops before damage; raises StoreDamaged
        when `first` itself is damaged.
        """
        start = self.tail(first - 1)
        piece = self._read(start, min(size_max, end - start.end))
        if not piece.checked.slots and piece.checked.cut_short:
            header = self.header(first)
            piece = self._read(start, header.position + header.size - start.end)
        if not piece.checked.slots:
            raise self.damage(piece.start.end, piece.checked.reason)
        return piece

    def _read(self, start: Tail, size: int) -> Piece:
        data = memoryview(self._data.read(start.end, size))
        checked = check_records(data, start, self._data.file_size, self._zero_below)
        return Piece(start, data[: checked.tail.end - start.end], checked)

    def index_at(self, position: int, last: int) -> Index:
        """Index ≤ `last` of the record that begins at `position`. Raises KeyError."""
        index = unpack_header(self._data.read(position, HEADER_SIZE).ljust(HEADER_SIZE)).sequence
        if self.first <= index <= last:
            header = self._by_slot(index)  # a body may look like a header; its slot does not agree
            if header is not None and header.position == position:
                return Index(index)
        low, high = int(self.first), last
        while low <= high:
            middle = (low + high) // 2
            found = self.header(middle).position
            if found == position:
                return Index(middle)
            if found < position:
                low = middle + 1
            else:
                high = middle - 1
        raise KeyError(f"no record begins at position {position}")

    def term_runs(self, last: int) -> list[TermRun]:
        """Runs of the records up to `last`; a binary search for the end of each term."""
        runs: list[TermRun] = []
        index = int(self.first)
        final = self.header(last).epoch if index <= last else 0
        while index <= last:
            term = self.header(index).epoch
            low, high = index, last
            if term == final:
                low = last
            while low < high:
                middle = (low + high + 1) // 2
                if self.header(middle).epoch <= term:
                    low = middle
                else:
                    high = middle - 1
            runs.append(TermRun(Term(term), Index(low)))
            index = low + 1
        return runs
