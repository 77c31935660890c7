"""Reads entries outside the tail cache: pread, verify, and rewrite bad index slots on the way.

Only the data files are trusted. A slot that does not agree with its record is rewritten from the
records. A record that does not continue the record before it is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY, RecordHeader, unpack_header
from dledger.core.types import EntryId, Index, Term, TermRun
from dledger.errors import LogUsageError
from dledger.log.check import Checked, Tail, check_records
from dledger.log.file_row import FileRow
from dledger.log.slots import SlotFiles

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
    while True:  # each turn advances, or reads twice as much
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


def _no_listener(_: Index) -> None:
    """The default of `when_damaged`: only the reader learns of the damage, by its error."""


class ColdReader:
    """Records and slots of a log on disk. The caller keeps indexes within the log.

    `when_damaged`: called with the index of a record that is found damaged, before the error.
    """

    def __init__(self, data: FileRow, slots: SlotFiles, anchor: Tail, zero_below: int) -> None:
        self._data, self._slots = data, slots
        self._zero_below = zero_below
        self.begin_at(anchor)
        self.when_damaged: Callable[[Index], None] = _no_listener
        self._is_closed = False

    def begin_at(self, anchor: Tail) -> None:
        """Begin behind `anchor`, the end of the record before the first one in the files."""
        self.anchor, self.first = anchor, Index(anchor.id.index + 1)

    def header(self, index: int) -> RecordHeader:
        """Header of the record `index`; rewrites its slot if that is wrong. Raises StoreDamaged."""
        return self.by_slot(index) or self._rewrite_slots(index)

    def slot_agrees(self, index: int) -> bool:
        """True if the slot on disk agrees with the record that it points to."""
        return self.by_slot(index) is not None

    def tail(self, index: int) -> Tail:
        """The end of record `index`, which record `index + 1` continues."""
        if index < self.first:
            return self.anchor
        header = self.header(index)
        end = header.position + header.size
        return Tail(EntryId(Term(header.epoch), Index(index)), header.chain_crc, end)

    def by_slot(self, index: int) -> RecordHeader | None:
        """Header of the record that slot `index` points to; None unless the two agree."""
        slot = self._slots.read(index)
        if slot is None or not self._data.start <= slot.position <= self._data.end - HEADER_SIZE:
            return None
        header = unpack_header(self._data.read(slot.position, HEADER_SIZE))
        return header if header.magic == MAGIC_ENTRY and slot.names(header) else None

    def _rewrite_slots(self, index: int) -> RecordHeader:
        """Rewrite the slots before and at `index` from the records, verifying each."""
        start = self.known_before(index)
        for piece in scan(self._data, start, self._zero_below, self._data.end):
            checked = piece.checked
            if checked.slots:
                self._slots.write(piece.start.id.index + 1, b"".join(checked.slots))
            if checked.tail.id.index >= index:
                break
            if checked.reason and not checked.cut_short:
                damaged = Index(checked.tail.id.index + 1)
                raise self.damage(damaged, checked.tail.end, checked.reason)
        header = self.by_slot(index)
        if header is None:
            raise self.damage(Index(index), start.end, f"record {index} is not there")
        return header

    def known_before(self, index: int) -> Tail:
        """End of a record before `index` with a slot that agrees: the nearest one, or almost."""
        known, step = index - 1, 1
        while known >= self.first and self.by_slot(known) is None:
            known, step = known - step, step * 2
        return self.tail(known) if known >= self.first else self.anchor

    def close(self) -> None:
        """The files are closed: a record that is not found from now on is not damaged."""
        self._is_closed = True

    def damage(self, index: Index, position: int, reason: str) -> StoreDamaged:
        """Calls `when_damaged` and returns the error to raise, with data file and position.

        Raises LogUsageError on a closed log: its files are there, and nothing is wrong with them.
        """
        if self._is_closed:
            raise LogUsageError(f"record {index} was asked for after the log was closed")
        self.when_damaged(index)
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
            raise self.damage(Index(first), piece.start.end, piece.checked.reason)
        return piece

    def read_bytes(self, position: int, size: int) -> bytes:
        """`size` bytes of the data files at `position`, unverified."""
        return self._data.read(position, size)

    def _read(self, start: Tail, size: int) -> Piece:
        data = memoryview(self._data.read(start.end, size))
        checked = check_records(data, start, self._data.file_size, self._zero_below)
        return Piece(start, data[: checked.tail.end - start.end], checked)

    def index_at(self, position: int, last: int) -> Index:
        """Index ≤ `last` of the record that begins at `position`. Raises KeyError."""
        index = unpack_header(self._data.read(position, HEADER_SIZE).ljust(HEADER_SIZE)).sequence
        if self.first <= index <= last:
            header = self.by_slot(index)  # a body may look like a header; its slot does not agree
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

    def term_runs(self, last: int, final: int) -> list[TermRun]:
        """Runs of equal terms up to record `last` of term `final`; by binary search."""
        runs: list[TermRun] = []
        index, term = int(self.first), 0
        while index <= last:
            term = self._term(index, last, term, final)
            low, high = index, last
            if term == final:
                low = last
            while low < high:
                middle = (low + high + 1) // 2
                if self._term(middle, last, term, final) <= term:
                    low = middle
                else:
                    high = middle - 1
            runs.append(TermRun(Term(term), Index(low)))
            index = low + 1
        return runs

    def _term(self, index: int, last: int, lowest: int, highest: int) -> int:
        """Term of a record; if it is damaged, by its slot, or by its neighbours if they agree.

        The mark, or the record itself, has told that of the last one, which is `highest`.
        """
        if lowest == highest or index == last:
            return highest
        try:
            return self.header(index).epoch
        except StoreDamaged:
            slot = self._slots.read(index)
            if slot is not None and lowest <= slot.term <= highest:
                return slot.term
            before = self.known_before(index).id.term
            behind = self._known_behind(index, last)
            if before != (highest if behind is None else behind.epoch):
                raise
            return before

    def _known_behind(self, index: int, last: int) -> RecordHeader | None:
        """Header of the nearest record behind `index`, up to `last`, with a slot that agrees."""
        found = None
        while found is None and index < last:
            index += 1
            found = self.by_slot(index)
        return found
