"""The half of `FileLog` that changes nothing: look up, read, make ranges.

fresh   tail cache: the buffers that were checksummed when they were written
recent  a few verified pieces that were read a moment ago, read ahead where somebody walks
cold    pread and verify (`cold.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from commitlog.records.record import BLANK, HEADER_SIZE, MAGIC_BLANK, unpack_header
from dledger.core.types import NO_ENTRY, EntryId, Index, TermRun
from dledger.log.check import Tail
from dledger.log.cold import ColdReader
from dledger.log.port import Entry, LogRange
from dledger.log.recent import RecentPieces, chunk_of
from dledger.log.runs import runs_between, term_of
from dledger.log.tail_cache import Chunk, TailCache

READ_SIZE = 1 << 20  # bytes per cold read when entries are walked through
PARTS_MAX = 16  # views in one range; more are joined, a copy is cheaper than many small sends


class LogReading:
    """What is in the log and how it is read; `FileLog` adds to it and cuts from it."""

    def __init__(
        self,
        cold: ColdReader,
        before: Tail,
        tail: Tail,
        runs: list[TermRun],
        cache_size_max: int,
    ) -> None:
        """`before`: what the first entry continues; it may end below the first file."""
        self._cold, self._before, self._tail, self._runs = cold, before, tail, runs
        self._cache = TailCache(cache_size_max)
        self._recent = RecentPieces()

    @property
    def first_index(self) -> Index:
        return self._cold.first

    @property
    def anchor(self) -> EntryId:
        return self._before.id

    @property
    def last(self) -> EntryId:
        return self._tail.id

    @property
    def end_position(self) -> int:
        return self._tail.end

    @property
    def first_position(self) -> int:
        return self._cold.anchor.end

    def term_runs(self) -> list[TermRun]:
        return list(self._runs)

    def id_of(self, index: Index) -> EntryId:
        if index == self._before.id.index:
            return self._before.id
        self._check_inside(index)
        return EntryId(term_of(self._runs, index), index)

    def position_of(self, index: Index) -> int:
        if index == self._tail.id.index + 1:
            return self._tail.end
        self._check_inside(index)
        chunk = self._known(index)
        return self._cold.header(index).position if chunk is None else chunk.slot(index)[1]

    def index_at(self, position: int) -> Index:
        if not self._cold.anchor.end <= position < self._tail.end:
            raise KeyError(f"no record begins at position {position}")
        chunk = self._cache.find_position(position) or self._recent.find_position(position)
        if chunk is None:
            return self._cold.index_at(position, self._tail.id.index)
        index = chunk.index_at(position)
        if index < 0:
            raise KeyError(f"no record begins at position {position}")
        return Index(index)

    def _check_inside(self, index: int) -> None:
        if not self._cold.first <= index <= self._tail.id.index:
            raise IndexError(
                f"entry {index} is not in the log, which holds "
                f"{self._cold.first} to {self._tail.id.index}"
            )

    def _known(self, index: int) -> Chunk | None:
        """The chunk in memory that holds an entry."""
        return self._cache.find(index) or self._recent.find(index)

    # -- entries --------------------------------------------------------------------------------

    def entry(self, index: Index) -> Entry:
        self._check_inside(index)
        chunk = self._known(index)
        if chunk is None:
            size = self._recent.size_for(index)
            piece = self._cold.read(index, self._tail.end, size)
            chunk = self._recent.add(piece)
        header = chunk.header(index)
        return Entry(header, chunk.body(header))

    def entries(self, first: Index, last: Index) -> Iterator[Entry]:
        if first > last:
            return
        self._check_inside(first)
        self._check_inside(last)
        end = self._end_of(last)  # not where the next one begins: that one may be damaged
        index = int(first)
        while index <= last:
            chunk = self._known(index)
            if chunk is None:
                chunk = chunk_of(self._cold.read(index, end, READ_SIZE))
            data, at = chunk.data, chunk.slot(index)[1] - chunk.start.end
            stop = min(last, chunk.last)
            while index <= stop:
                header = unpack_header(data, at)
                end_of_entry = at + header.size
                if header.magic > 0:
                    yield Entry(header, data[at + HEADER_SIZE : end_of_entry])
                    index += 1
                at = end_of_entry

    # -- ranges ---------------------------------------------------------------------------------

    def read_range(self, first: Index, last_max: Index, size_max: int) -> LogRange:
        last_max = min(last_max, self._tail.id.index)
        if first > last_max:
            return self._empty_range(first)
        chunk = self._cache.find(first)
        if chunk is not None:
            if chunk.last == last_max and chunk.first == first and len(chunk.data) <= size_max:
                return self._chunk_range(chunk)
            return self._cached_range(chunk, first, last_max, size_max)
        self._check_inside(first)
        piece = self._cold.read(first, self._end_of(last_max), size_max)
        checked, position = piece.checked, piece.start.end
        parts: tuple[memoryview, ...] = (piece.data,)
        if first == self._cold.first and self._before.end < position:
            parts, position = (self._lost_blank(), piece.data), self._before.end
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

        Whoever still has the entry before it continues there.
        """
        size = self._cold.anchor.end - self._before.end
        return memoryview(BLANK.pack(MAGIC_BLANK, size).ljust(size, b"\0"))

    def read_bytes(self, position: int, size: int) -> bytes:
        if not self._cold.anchor.end <= position <= self._tail.end:
            raise IndexError(f"position {position} is not in the log")
        return self._cold.read_bytes(position, min(size, self._tail.end - position))

    def _empty_range(self, first: Index) -> LogRange:
        if not self._cold.first <= first <= self._tail.id.index + 1:
            raise IndexError(f"entry {first} is not in the log and does not follow it")
        before = self._tail_at(first - 1)
        prev = _known_id(before.id)
        return LogRange(prev, before.chain_crc or 0, prev.index, (), before.end, 0, ())

    def _chunk_range(self, chunk: Chunk) -> LogRange:
        """What one append wrote, as followers that keep pace want it."""
        (prev, chain_crc, position), last = chunk.start, Index(chunk.last)
        runs = runs_between(self._runs, Index(prev.index + 1), last)
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
            following = self._cache.find(index)
        if len(parts) > PARTS_MAX:
            parts = [memoryview(b"".join(parts))]
        last_index = Index(index - 1)
        return LogRange(
            _known_id(prev),
            chain_crc or 0,
            last_index,
            runs_between(self._runs, first, last_index),
            position,
            at - position,
            tuple(parts),
        )

    def _end_of(self, index: int) -> int:
        """Address behind the record of an entry of the log."""
        return self._tail.end if index == self._tail.id.index else self._tail_at(index).end

    def _tail_at(self, index: int) -> Tail:
        """Id, checksum and end of an entry of the log, or of what is before the first one."""
        if index == self._tail.id.index:
            return self._tail
        if index == self._before.id.index:
            return self._before
        chunk = self._known(index)
        return self._cold.tail(index) if chunk is None else chunk.tail_at(index)


def _known_id(prev: EntryId) -> EntryId:
    """Before the first entry there is no entry, whatever index a log begins with."""
    return NO_ENTRY if prev.index < 0 else prev
