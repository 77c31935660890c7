"""Looks entries up, reads them, makes ranges of them; the log stays as it is.

fresh   tail cache: the buffers that were checksummed when they were written
recent  a few verified pieces that were read a moment ago, read ahead for a reader in order
cold    pread and verify (`cold.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.record import BLANK, HEADER_SIZE, MAGIC_BLANK, unpack_header
from dledger.core.types import NO_ENTRY, EntryId, Index, TermRun
from dledger.log.check import SLOT, Tail
from dledger.log.cold import ColdReader
from dledger.log.pointers import LogPointers
from dledger.log.port import Entry, LogRange
from dledger.log.recent import RecentPieces, chunk_of
from dledger.log.runs import runs_between, term_of
from dledger.log.tail_cache import Chunk, TailCache

READ_SIZE = 1 << 20  # bytes per cold read when entries are walked through
PARTS_MAX = 16  # views in one range; more are joined, a copy is cheaper than many small sends


class EntryReader:
    """The entries of one log between its `pointers`, from memory or from disk.

    Attributes:
        cold: reads the files; it knows where they begin.
        cache, recent: what is in memory; who writes or cuts keeps them right.
    """

    def __init__(self, cold: ColdReader, pointers: LogPointers, cache_size_max: int) -> None:
        self.cold, self._at = cold, pointers
        self.cache, self.recent = TailCache(pointers, cache_size_max), RecentPieces()

    def term_runs(self) -> list[TermRun]:
        """See `LogStore`, as for the other methods that `FileLog` hands out."""
        return list(self._at.runs)

    def id_of(self, index: Index) -> EntryId:
        """Term and index, also of the entry before the first one. Raises IndexError."""
        if index == self._at.before.id.index:
            return self._at.before.id
        self._check_inside(index)
        return EntryId(term_of(self._at.runs, index), index)

    def position_of(self, index: Index) -> int:
        """As `LogStore.position_of`. Raises IndexError, and StoreDamaged for a damaged record."""
        if index == self._at.tail.id.index + 1:
            return self._at.tail.end
        self._check_inside(index)
        chunk = self._known(index)
        return self.cold.header(index).position if chunk is None else chunk.slot(index)[1]

    def index_at(self, position: int) -> Index:
        """Index of the record that begins exactly here. Raises KeyError when none does."""
        if not self.cold.anchor.end <= position < self._at.tail.end:
            raise KeyError(f"no record begins at position {position}")
        chunk = self.cache.find_position(position) or self.recent.find_position(position)
        if chunk is None:
            return self.cold.index_at(position, self._at.tail.id.index)
        index = chunk.index_at(position)
        if index < 0:
            raise KeyError(f"no record begins at position {position}")
        return Index(index)

    def _check_inside(self, index: int) -> None:
        if not self.cold.first <= index <= self._at.tail.id.index:
            raise IndexError(
                f"entry {index} is not in the log, which holds "
                f"{self.cold.first} to {self._at.tail.id.index}"
            )

    def _known(self, index: int) -> Chunk | None:
        """The chunk in memory that holds an entry."""
        return self.cache.find(index) or self.recent.find(index)

    # -- entries --------------------------------------------------------------------------------

    def entry(self, index: Index) -> Entry:
        """One verified entry. Raises IndexError outside the log, StoreDamaged if it is damaged."""
        self._check_inside(index)
        chunk = self._known(index)
        if chunk is None:
            size = self.recent.size_for(index)
            piece = self.cold.read(index, self._at.tail.end, size)
            chunk = self.recent.add(piece)
        header = chunk.header(index)
        return Entry(header, chunk.body(header))

    def entries(self, first: Index, last: Index) -> Iterator[Entry]:
        """Yields `first` to `last`, both included, verified. Raises as `entry`."""
        for chunk, begin, stop in self._chunks(first, last):
            data, at = chunk.data, chunk.slot(begin)[1] - chunk.start.end
            index = begin
            while index <= stop:
                header = unpack_header(data, at)
                end_of_entry = at + header.size
                if header.magic > 0:
                    yield Entry(header, data[at + HEADER_SIZE : end_of_entry])
                    index += 1
                at = end_of_entry

    def bodies(self, first: Index, last: Index) -> Iterator[tuple[int, int, Buffer]]:
        """As `LogStore.bodies`, by the slots alone. Raises as `entry`."""
        for chunk, begin, stop in self._chunks(first, last):
            data, base, before = chunk.data, chunk.start.end, chunk.first
            slots = memoryview(chunk.slots)[(begin - before) * 32 : (stop - before + 1) * 32]
            for _, position, size, index, term in SLOT.iter_unpack(slots):
                at = position - base
                yield index, term, data[at + HEADER_SIZE : at + size]

    def _chunks(self, first: Index, last: Index) -> Iterator[tuple[Chunk, int, int]]:
        """The chunks, from memory or verified, that hold `first`..`last`, and which of theirs."""
        if first > last:
            return
        self._check_inside(first)
        self._check_inside(last)
        end = self._end_of(last)  # not where the next one begins: that one may be damaged
        index = int(first)
        while index <= last:
            chunk = self._known(index)
            if chunk is None:
                chunk = chunk_of(self.cold.read(index, end, READ_SIZE))
            stop = min(last, chunk.last)
            yield chunk, index, stop
            index = stop + 1

    # -- ranges ---------------------------------------------------------------------------------

    def read_range(self, first: Index, last_max: Index, size_max: int) -> LogRange:
        """As `LogStore.read_range`, from the tail cache or the disk. Raises StoreDamaged, too."""
        last_max = min(last_max, self._at.tail.id.index)
        if first > last_max:
            return self._empty_range(first)
        chunk = self.cache.find(first)
        if chunk is not None:
            if chunk.last == last_max and chunk.first == first and len(chunk.data) <= size_max:
                return self._chunk_range(chunk)
            return self._cached_range(chunk, first, last_max, size_max)
        self._check_inside(first)
        piece = self.cold.read(first, self._end_of(last_max), size_max)
        checked, position = piece.checked, piece.start.end
        parts: tuple[memoryview, ...] = (piece.data,)
        if first == self.cold.first and self._at.before.end < position:
            parts, position = (self._lost_blank(), piece.data), self._at.before.end
        return LogRange(
            _known_id(piece.start.id),
            piece.start.chain_crc or 0,
            checked.tail.id.index,
            tuple(checked.runs),
            position,
            sum(map(len, parts)),
            parts,
        )

    def _lost_blank(self) -> memoryview:
        """The blank before the first file: it went with the file that it filled (R10).

        A follower that still has the entry before the blank continues there.
        """
        size = self.cold.anchor.end - self._at.before.end
        return memoryview(BLANK.pack(MAGIC_BLANK, size).ljust(size, b"\0"))

    def whole_through(self, first: Index, last: Index) -> Index:
        """Up to where entries `first`..`last` can be read; those in memory are whole."""
        if self.cache.find(first) is not None:
            return last
        try:
            end = self._end_of(last)
        except StoreDamaged:  # it is not whole; what is before it may be
            end = self._at.tail.end
        index = int(first)
        while index <= last:
            try:
                piece = self.cold.read(index, end, READ_SIZE)
            except StoreDamaged:
                return Index(index - 1)
            index = piece.checked.tail.id.index + 1
        return last

    def read_bytes(self, position: int, size: int) -> bytes:
        """As `LogStore.read_bytes`, blanks included. Raises IndexError outside the log."""
        if not self.cold.anchor.end <= position <= self._at.tail.end:
            raise IndexError(f"position {position} is not in the log")
        return self.cold.read_bytes(position, min(size, self._at.tail.end - position))

    def _empty_range(self, first: Index) -> LogRange:
        if not self.cold.first <= first <= self._at.tail.id.index + 1:
            raise IndexError(f"entry {first} is not in the log and does not follow it")
        before = self.tail_at(first - 1)
        prev = _known_id(before.id)
        return LogRange(prev, before.chain_crc or 0, prev.index, (), before.end, 0, ())

    def _chunk_range(self, chunk: Chunk) -> LogRange:
        """The range of one append, as followers that keep pace want it."""
        (prev, chain_crc, position), last = chunk.start, Index(chunk.last)
        runs = runs_between(self._at.runs, Index(prev.index + 1), last)
        data = chunk.data
        return LogRange(_known_id(prev), chain_crc or 0, last, runs, position, len(data), (data,))

    def _cached_range(self, chunk: Chunk, first: Index, last_max: Index, size_max: int) -> LogRange:
        prev, chain_crc, position = chunk.tail_at(first - 1)
        parts: list[memoryview] = []
        index, at, end_max = first, position, position + size_max
        following: Chunk | None = chunk
        while following is not None:
            if index > first and following.end_of(index) > end_max:
                break
            last = following.last_within(index, last_max, end_max)
            end = following.end_of(last)
            base = following.start.end
            parts.append(following.data[at - base : end - base])
            index, at = Index(last + 1), end
            if last < following.last or index > last_max:
                break
            following = self.cache.find(index)
        if len(parts) > PARTS_MAX:
            parts = [memoryview(b"".join(parts))]
        last_index = Index(index - 1)
        return LogRange(
            _known_id(prev),
            chain_crc or 0,
            last_index,
            runs_between(self._at.runs, first, last_index),
            position,
            at - position,
            tuple(parts),
        )

    def _end_of(self, index: int) -> int:
        """Address behind the record of an entry of the log."""
        return self._at.tail.end if index == self._at.tail.id.index else self.tail_at(index).end

    def tail_at(self, index: int) -> Tail:
        """Id, checksum and end of an entry of the log, or of the anchor before the first one."""
        if index == self._at.tail.id.index:
            return self._at.tail
        if index == self._at.before.id.index:
            return self._at.before
        chunk = self._known(index)
        return self.cold.tail(index) if chunk is None else chunk.tail_at(index)

    # -- what is in memory ----------------------------------------------------------------------

    def cut_after(self, index: int) -> None:
        """Forget the entries above `index`, and all pieces that were read from disk."""
        self.cache.cut_after(index)
        self.recent.clear()

    def clear(self) -> None:
        """Forget all that is in memory."""
        self.cache.clear()
        self.recent.clear()

    def close(self) -> None:
        """The log is closed: the same, and reads raise LogUsageError from now on."""
        self.clear()
        self.cold.close()


def _known_id(prev: EntryId) -> EntryId:
    """`prev`, or NO_ENTRY before the first entry, at any first index of the log."""
    return NO_ENTRY if prev.index < 0 else prev
