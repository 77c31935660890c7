"""Damaged records at or below the flush mark, and the facts that are known of them.

A log opens with damage when its owner can repair it (`LogOptions.repairable`); else it refuses
to start. Of a damaged record only its place in the order is certain. Its end and its term are taken
from its header where the chain checksum proves it, else from its slot; if neither tells them, the
damage reaches to the next record that is found by its own bytes. The log does not open when the
term of an entry in between cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from commitlog.records.checksum import crc32
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY, RecordHeader, unpack_header
from dledger.core.types import EntryId, Index, Term
from dledger.durable.flush_mark import Mark
from dledger.log.check import CHAIN_INPUT, SLOT, Tail
from dledger.log.cold import ColdReader, scan
from dledger.log.file_row import FileRow
from dledger.log.options import LogOptions
from dledger.log.slots import SlotFiles

#: Bytes read at a time when a record is looked for.
_LOOK_BYTES = 1 << 20
#: Terms tried for a header whose term may be what rotted; more elections than that lie between
#: two entries only where nobody could lead for minutes.
_TERMS_MAX = 64
_MAGIC = MAGIC_ENTRY.to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage within the entries `first`..`last`: the first one is damaged, others may be."""

    first: Index
    last: Index
    reason: str


class KnownDamage:
    """The damaged ranges of one log, by index, as recovery and the scrubber found them.

    Every read verifies and so refuses them anyway; the list is for people, for the rules and for
    repair.
    """

    def __init__(self, ranges: Sequence[Damage]) -> None:
        self.ranges = tuple(ranges)

    def add(self, damage: Damage) -> None:
        """A range that was found, in place of those that it touches."""
        others = [d for d in self.ranges if d.last < damage.first or d.first > damage.last]
        self.ranges = tuple(sorted([*others, damage], key=lambda d: d.first))

    def found_whole(self, first: Index, last: int) -> None:
        """Entries `first`..`last` were verified; a range that reaches beyond them stays."""
        self.ranges = tuple(d for d in self.ranges if not first <= d.first <= d.last <= last)

    def restored(self, first: int, last: Index) -> None:
        """Entries `first`..`last` were put back; damage behind them stays."""
        left = []
        for damage in self.ranges:
            if damage.first > last or damage.last < first:
                left.append(damage)
            elif damage.last > last:
                left.append(Damage(Index(last + 1), damage.last, damage.reason))
        self.ranges = tuple(left)

    def extend_down(self, first: Index, to: Index, reason: str) -> None:
        """The range that begins at `first` begins at `to`."""
        self.ranges = tuple(
            Damage(to, d.last, reason) if d.first == first else d for d in self.ranges
        )

    def cut_after(self, index: Index) -> None:
        """Entries above `index` are truncated."""
        kept = [d for d in self.ranges if d.first <= index]
        self.ranges = tuple(Damage(d.first, min(d.last, index), d.reason) for d in kept)

    def cut_before(self, first: Index) -> None:
        """The log begins with entry `first` now."""
        kept = [d for d in self.ranges if d.last >= first]
        self.ranges = tuple(Damage(max(d.first, first), d.last, d.reason) for d in kept)


def marked_end(data: FileRow, slots: SlotFiles, mark: Mark) -> Tail | None:
    """The end of the damaged record that the mark names; None when it cannot be told."""
    size = 0
    if data.start <= mark.position <= data.end - HEADER_SIZE:
        header = unpack_header(data.read(mark.position, HEADER_SIZE))
        if header.size == header.body_size + HEADER_SIZE and header.position == mark.position:
            size = header.size
        else:  # one of the fields is wrong: that size counts with which the body is whole
            whole = (
                s
                for s in _sizes(header, data, mark.position)
                if _is_body(header, data, mark.position, s)
            )
            size = next(whole, 0)
    slot = slots.read(mark.index)
    if slot is not None and (slot.position, slot.term) == (mark.position, mark.term):
        size = size if size == slot.size else max(slot.size, HEADER_SIZE)
    end = mark.position + size
    if size < HEADER_SIZE or end > mark.position - mark.position % data.file_size + data.file_size:
        return None
    return Tail(EntryId(mark.term, mark.index), mark.chain_crc, end)


def scan_over_damage(
    cold: ColdReader, data: FileRow, slots: SlotFiles, mark: Mark, start: Tail, options: LogOptions
) -> list[Damage]:
    """Make the slots from `start` to the mark again, around records that are not valid."""
    found: list[Damage] = []
    while True:  # each turn begins behind the damage of the one before
        tail, reason = start, ""
        for piece in scan(data, start, options.zero_below, data.end):
            tail, reason = piece.checked.tail, piece.checked.reason
            first = piece.start.id.index + 1
            packed = piece.checked.slots[: max(0, mark.index + 1 - first)]
            if packed:
                slots.write(first, b"".join(packed))
            if tail.id.index >= mark.index:
                return found
        known, start = around(cold, data, slots, mark, tail, options)
        found.append(Damage(Index(tail.id.index + 1), known, reason))
        if known >= mark.index:
            return found


def around(
    cold: ColdReader,
    data: FileRow,
    slots: SlotFiles,
    mark: Mark,
    before: Tail,
    options: LogOptions,
) -> tuple[Index, Tail]:
    """The last entry of the damage behind `before`, and the end of its last record."""
    proven = _proven(data, before, mark, options)
    if proven is None:
        return _behind(cold, data, slots, mark, before, options)
    damaged = Index(before.id.index + 1)
    slots.write(damaged, proven.slot)
    return damaged, proven.tail


@dataclass(frozen=True, slots=True)
class _Place:
    """A record's place: its slot, and its end, which the next record continues."""

    slot: bytes
    tail: Tail


def _sizes(header: RecordHeader, data: FileRow, position: int) -> set[int]:
    """The sizes that a header names, one of which may be wrong; those that fit its file."""
    left = data.file_size - position % data.file_size
    named = (header.size, header.body_size + HEADER_SIZE)
    return {size for size in named if HEADER_SIZE <= size <= left}


def _is_body(header: RecordHeader, data: FileRow, position: int, size: int) -> bool:
    body = data.read(position + HEADER_SIZE, size - HEADER_SIZE)
    return crc32(body) == header.body_crc


def _proven(data: FileRow, before: Tail, mark: Mark, options: LogOptions) -> _Place | None:
    """The record behind `before`, when a chain checksum says which header it had.

    Its number and place are known, its size stands in it twice, its term is bounded, and the body's
    checksum is there as well as the body: one of each must lead to its own chain checksum, or to
    that of the record behind it.
    """
    if before.chain_crc is None:
        return None
    next_file = before.end - before.end % data.file_size + data.file_size
    ways = []
    for position in (before.end, next_file):  # a blank may be before it, damaged as well
        if position > data.end - HEADER_SIZE:
            continue
        header = unpack_header(data.read(position, HEADER_SIZE))
        for way in _ways(data, header, position, before, mark):
            if way.tail.chain_crc == header.chain_crc:
                return way
            ways.append(way)
    return next((way for way in ways if _goes_on(data, way.tail, options)), None)


def _ways(
    data: FileRow, header: RecordHeader, position: int, before: Tail, mark: Mark
) -> Iterator[_Place]:
    """Everything that the record may have been."""
    index, lowest = before.id.index + 1, int(before.id.term)
    terms = {*range(lowest, min(mark.term, lowest + _TERMS_MAX) + 1)}
    if lowest <= header.epoch <= mark.term:
        terms.add(header.epoch)
    for size in _sizes(header, data, position):
        body = data.read(position + HEADER_SIZE, size - HEADER_SIZE)
        for body_crc in {header.body_crc, crc32(body)}:
            for term in sorted(terms):
                said = (MAGIC_ENTRY, size, index, term, position, 0, body_crc)
                chain_crc = crc32(CHAIN_INPUT.pack(before.chain_crc, *said))
                slot = SLOT.pack(MAGIC_ENTRY, position, size, index, term)
                yield _Place(slot, _tail(index, term, chain_crc, position + size))


def _goes_on(data: FileRow, tail: Tail, options: LogOptions) -> bool:
    """Is a valid record behind it?"""
    return any(p.checked.slots for p in scan(data, tail, options.zero_below, data.end))


def _tail(index: int, term: int, chain_crc: int, end: int) -> Tail:
    return Tail(EntryId(Term(term), Index(index)), chain_crc, end)


def _behind(
    cold: ColdReader,
    data: FileRow,
    slots: SlotFiles,
    mark: Mark,
    before: Tail,
    options: LogOptions,
) -> tuple[Index, Tail]:
    """The first record that is known behind the damaged one after `before`, and its end.

    By its slot; else it is looked for in the bytes.
    """
    known = Index(before.id.index + 2)
    while known <= mark.index and cold.by_slot(known) is None:
        known = Index(known + 1)
    if known < mark.index:
        return known, cold.tail(known)
    found = _found_by_bytes(data, mark, before, options)
    if found is None:
        return mark.index, before
    slots.write(found.tail.id.index, found.slot)
    return found.tail.id.index, found.tail


def _found_by_bytes(data: FileRow, mark: Mark, before: Tail, options: LogOptions) -> _Place | None:
    """A record below the marked one with a header, body and successor that agree.

    A header names its own address, so bytes of a body are hardly taken for one; if they are, what
    peers have does not continue it, and the range grows.
    """
    at = before.end + 1
    while at < mark.position:
        part = data.read(at, min(_LOOK_BYTES, mark.position + HEADER_SIZE - at))
        offset = part.find(_MAGIC)
        while 0 <= offset <= len(part) - HEADER_SIZE:
            header = unpack_header(part, offset)
            if header.position == at + offset and before.id.index + 1 < header.sequence:
                place = _agrees(data, header, mark, options)
                if place is not None:
                    return place
            offset = part.find(_MAGIC, offset + 1)
        at += max(1, len(part) - HEADER_SIZE)
    return None


def _agrees(data: FileRow, header: RecordHeader, mark: Mark, options: LogOptions) -> _Place | None:
    size, index, term = header.size, header.sequence, header.epoch
    if index >= mark.index or size != header.body_size + HEADER_SIZE:
        return None
    if size not in _sizes(header, data, header.position) or not _is_body(
        header, data, header.position, size
    ):
        return None
    tail = _tail(index, term, header.chain_crc, header.position + size)
    if not _goes_on(data, tail, options):
        return None
    return _Place(SLOT.pack(MAGIC_ENTRY, header.position, size, index, term), tail)
