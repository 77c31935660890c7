"""The fresh end of the log, as the very buffers that were checksummed when they were made.

Replication and dispatch nearly always want what was written a moment ago. A chunk is what one
append wrote: contiguous bytes from the end before it, and the slots of its records. There is no
object per entry. The oldest chunks go when all together are larger than the bound. Those that are
not applied yet stay longer: they will be read once more for sure, and from disk each would be
verified again, when the node is busiest.
"""

from __future__ import annotations

from bisect import bisect_right

from commitlog.records.record import HEADER_SIZE, U32, RecordHeader, unpack_header
from dledger.core.types import EntryId, Index, Term
from dledger.core.value import value
from dledger.log.check import SLOT, Tail
from dledger.log.pointers import LogPointers

CACHE_SIZE_MAX = 8 << 20  # bytes; some 100 ms of a fast leader, so that no live follower misses it
#: Chunks that are not applied yet go when all together are larger than so many times the bound.
UNAPPLIED_TIMES = 8
CHUNK_OVERHEAD = 1024  # bytes counted for each chunk besides its data: objects, list entries
_CHAIN_AT = 36


@value
class Chunk:
    """One append. `start` is the tail before it; `data` begins at `start.end`."""

    start: Tail
    last: int
    data: memoryview
    slots: bytes | bytearray

    @property
    def first(self) -> int:
        """Index of the first entry of the chunk."""
        return self.start.id.index + 1

    def slot(self, index: int) -> tuple[int, int, int, int, int]:
        """(magic, position, size, index, term) of the record."""
        return SLOT.unpack_from(self.slots, (index - self.first) * 32)

    def header(self, index: int) -> RecordHeader:
        """Unpacks the header of an entry that this chunk holds."""
        return unpack_header(self.data, self.slot(index)[1] - self.start.end)

    def body(self, header: RecordHeader) -> memoryview:
        """The body behind `header`, as a view of the chunk's buffer."""
        at = header.position - self.start.end + HEADER_SIZE
        return self.data[at : at + header.body_size]

    def end_of(self, index: int) -> int:
        """Address behind the entry, without a blank that may follow."""
        _, position, size, _, _ = self.slot(index)
        return position + size

    def chain_crc(self, index: int) -> int:
        """The chain checksum of record `index` of the chunk."""
        at: int = self.slot(index)[1] - self.start.end + _CHAIN_AT
        return int(U32.unpack_from(self.data, at)[0])

    def tail_at(self, index: int) -> Tail:
        """The end of record `index`, which is in the chunk or just before it."""
        if index < self.first:
            return self.start
        _, position, size, _, term = self.slot(index)
        return Tail(EntryId(Term(term), Index(index)), self.chain_crc(index), position + size)

    def index_at(self, position: int) -> int:
        """Index of the record that begins at an address of the chunk; -1 when none does."""
        low, high = self.first, self.last
        while low < high:
            middle = (low + high) // 2
            if self.slot(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return low if self.slot(low)[1] == position else -1

    def last_within(self, first: int, last_max: int, end_max: int) -> int:
        """Highest index ≤ last_max with its record's end ≤ `end_max`; at least `first`."""
        low, high = first, min(last_max, self.last)
        if self.end_of(high) <= end_max:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self.end_of(middle) <= end_max:
                low = middle
            else:
                high = middle - 1
        return low


class TailCache:
    """Chunks in order, without gaps, the last one ending at the log's end."""

    def __init__(self, pointers: LogPointers, size_max: int = CACHE_SIZE_MAX) -> None:
        self._at, self._size_max = pointers, size_max
        self._size = 0
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []

    @property
    def size(self) -> int:
        """Bytes held, overhead counted."""
        return self._size

    def add(self, chunk: Chunk) -> None:
        """Adds the next chunk; over the size limit, drops the oldest down to 3/4 of it."""
        chunks, first = self._chunks, chunk.start.id.index + 1
        assert not chunks or first == chunks[-1].last + 1
        chunks.append(chunk)
        self._firsts.append(first)
        self._size += len(chunk.data) + CHUNK_OVERHEAD
        if self._size > self._size_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Down to three quarters of the bound, so that dropping is rare and cheap."""
        target, count = self._size_max * 3 // 4, 0
        applied, unapplied_max = self._at.committed, self._size_max * UNAPPLIED_TIMES
        for chunk in self._chunks:
            if self._size <= (target if chunk.last <= applied else unapplied_max):
                break
            self._size -= len(chunk.data) + CHUNK_OVERHEAD
            count += 1
        del self._chunks[:count]
        del self._firsts[:count]

    def find(self, index: int) -> Chunk | None:
        """The chunk that holds the record `index`."""
        if not self._firsts or index < self._firsts[0]:
            return None
        chunk = self._chunks[bisect_right(self._firsts, index) - 1]
        return chunk if index <= chunk.last else None

    def find_position(self, position: int) -> Chunk | None:
        """The chunk that holds address `position`, or None."""
        low, high = 0, len(self._chunks)
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle].start.end <= position:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        chunk = self._chunks[low - 1]
        return chunk if position < chunk.start.end + len(chunk.data) else None

    def cut_after(self, index: int) -> None:
        """Forget entries above `index`; a chunk that reaches over it is cut there."""
        while self._chunks and self._chunks[-1].last > index:
            self._firsts.pop()
            chunk = self._chunks.pop()
            self._size -= len(chunk.data) + CHUNK_OVERHEAD
            if chunk.first <= index:
                kept = chunk.data[: chunk.end_of(index) - chunk.start.end]
                self.add(Chunk(chunk.start, index, kept, chunk.slots))

    def clear(self) -> None:
        """Drops all chunks; their entries are read from disk from now on."""
        self._chunks.clear()
        self._firsts.clear()
        self._size = 0
