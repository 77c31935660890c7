"""One key index file, written and read; format and rules are in index_format.py.

Source: docs/spec/store.md 4.

`put` writes entries to the file at once, one `pwrite` per batch, into blocks that `allocate_blocks`
got before. Slots of the newest file stay in memory (20 MB in RocketMQ's default, used page by page)
until a sync: it gets blocks for all that changed, writes the header, syncs, writes the slots,
syncs. So if the header agrees with the dispatch mark, which is written after that, the slots on
disk are complete, and the file reads as a whole index that may be a little old.

A crash may leave entries behind the header's count, which readers ignore. It may also leave a
header that is newer than the mark, and slots of any age: `keep` then makes the slots anew from the
entries, which never change. Until those slots are on disk the count in the header is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any

from commitlog.errors import StoreLayoutError
from commitlog.files.allocation import DERIVED_STEP_MAX
from commitlog.files.system import File, FileSystem, is_out_of_space, zero_memory
from commitlog.index.accel_index import SLOTS_SHIFT, fill_index_slots, place_index_keys
from commitlog.index.index_format import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    QUERY_HITS_MAX,
    SLOT,
    SLOT_SIZE,
    IndexEntry,
    IndexGeometry,
    IndexHeader,
    overlaps,
    pack_header,
    place_many,
    successor_header,
    unpack_header,
    walk,
)

_PAGE_SHIFT = 12  # slots are written back in pages of 4 KiB
_DIRTY = re.compile(b"\\x01+")
_ZEROS = bytes(1 << 20)
_ENTRIES_AT_ONCE = 50_000  # read at once: 1 MB


class IndexFile:
    """One file. Use `create` for a new one.

    Raises StoreLayoutError when the file's size does not fit the geometry.
    """

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        geometry: IndexGeometry,
        *,
        writable: bool = True,
        file: File | None = None,
    ) -> None:
        self.path, self._geometry = path, geometry
        if file is None:
            size = files.file_size(path)
            if size != geometry.file_size:
                raise StoreLayoutError(
                    f"{path} has {size} bytes; {geometry.slots} slots and {geometry.entries} "
                    f"entries make {geometry.file_size}; open the store with the index sizes that "
                    "it was written with"
                )
            file = files.open(path, writable=writable)
        self._file = file
        self.header: IndexHeader = unpack_header(file.pread(HEADER_SIZE, 0))
        self._slots: mmap | None = None
        self._page_count = (geometry.slots * SLOT_SIZE >> _PAGE_SHIFT) + 1
        self._dirty_pages = bytearray(self._page_count)  # 1: slots changed since the last sync
        self._unsynced = False
        self._remade = False
        self._room = 0  # the file has blocks for entries below this address

    @classmethod
    def create(
        cls,
        files: FileSystem,
        path: Path,
        geometry: IndexGeometry,
        *,
        staging: Path,
    ) -> IndexFile:
        """A new, empty file."""
        file = files.create(path, geometry.file_size, staging=staging, durable=False)
        index = cls(files, path, geometry, file=file)
        index._slots = zero_memory(geometry.slots * SLOT_SIZE)
        return index

    def follow(self, before: IndexFile) -> None:
        """Take this empty file's first bounds from its predecessor `before`, which is full."""
        assert self.count <= 0
        self.header = successor_header(before.header)

    @property
    def full(self) -> bool:
        """True if no further key fits."""
        return self.header.is_full(self._geometry)

    @property
    def count(self) -> int:
        """Entries in the file."""
        return self.header.next_ordinal - 1

    # ---- writing ---------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """How many more entries fit."""
        return self._geometry.entries - self.header.next_ordinal

    def allocate_blocks(self, count: int) -> None:
        """Get blocks for the next `count` entries, as far as they fit.

        Raises OSError (ENOSPC); then nothing has changed.
        """
        at = self._geometry.entry_position(self.header.next_ordinal)
        end = at + min(count, self.left) * ENTRY_SIZE
        if end <= self._room:
            return
        wanted = min(max(end, at + DERIVED_STEP_MAX), self._file.size)
        try:
            self._file.allocate_range(at, wanted)
        except OSError as error:
            if not is_out_of_space(error) or wanted == end:
                raise
            wanted = end
            self._file.allocate_range(at, wanted)
        self._room = wanted

    def put(self, hashes: Sequence[int], positions: Sequence[int], times_ms: Sequence[int]) -> int:
        """Insert keys in order until the file is full; return how many went in.

        Item k of each list belongs to key k: its hash, its message's position and store time. Call
        `allocate_blocks` before. Raises OSError: then open the file again before the next use.
        """
        if self.left < len(hashes):
            left = self.left
            hashes, positions, times_ms = hashes[:left], positions[:left], times_ms[:left]
        if not len(hashes):  # not `if not hashes`: numpy refuses that for an array
            return 0
        slots, at = self._loaded_slots(), self._geometry.entry_position(self.header.next_ordinal)
        placed = place_index_keys(
            slots,
            self._geometry.slots,
            self.header,
            hashes,
            positions,
            times_ms,
            self._dirty_pages,
        )
        if placed is None:
            columns = map(_plain, (hashes, positions, times_ms))
            placed = self._place(slots, zip(*columns, strict=True))
        entries, after = placed
        self._unsynced = True
        self._file.pwrite(entries, at)
        self.header = after
        return len(hashes)

    def _place(
        self, slots: mmap, keys: Iterable[tuple[int, int, int]]
    ) -> tuple[bytes, IndexHeader]:
        read, write = SLOT.unpack_from, SLOT.pack_into

        def slot_value(slot: int) -> int:
            value: int = read(slots, slot * SLOT_SIZE)[0]
            return value

        placed = place_many(self.header, self._geometry, keys, slot_value)
        for slot, ordinal in placed.slots.items():
            write(slots, slot * SLOT_SIZE, ordinal)
            self._dirty_pages[slot >> SLOTS_SHIFT] = 1
        return placed.entries, placed.header

    def _loaded_slots(self) -> mmap:
        if self._slots is None:
            slots = zero_memory(self._geometry.slots * SLOT_SIZE)
            slots[:] = self._file.pread(self._geometry.slots * SLOT_SIZE, HEADER_SIZE)
            self._slots = slots
        return self._slots

    # ---- reading ---------------------------------------------------------------------------------

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """May this file hold messages stored within [begin, end]?"""
        return overlaps(self.header, begin_ms, end_ms)

    def query(self, hash_of_key: int, hits_max: int, begin_ms: int, end_ms: int) -> list[int]:
        """Positions of entries with that hash and a time within bounds, newest first."""
        assert hits_max <= QUERY_HITS_MAX
        if self.count < 1:
            return []
        slot = self._slot(self._geometry.slot_of(hash_of_key))
        if slot >= self.header.next_ordinal:
            return []  # a crash left a slot that is ahead of the header
        return walk(self.header, slot, self.entry, hash_of_key, begin_ms, end_ms, hits_max)

    def _slot(self, slot: int) -> int:
        if self._slots is not None:
            value: int = SLOT.unpack_from(self._slots, slot * SLOT_SIZE)[0]
        else:
            data = self._file.pread(SLOT_SIZE, self._geometry.slot_position(slot))
            (value,) = SLOT.unpack(data)
        return value

    def entry(self, ordinal: int) -> IndexEntry:
        """The entry with that ordinal, 1 to `count`."""
        data = self._file.pread(ENTRY_SIZE, self._geometry.entry_position(ordinal))
        return IndexEntry._make(ENTRY.unpack(data))

    def entries(self) -> Iterator[IndexEntry]:
        """All entries, oldest first."""
        ordinal = 1
        while ordinal < self.header.next_ordinal:
            size = min(_ENTRIES_AT_ONCE, self.header.next_ordinal - ordinal) * ENTRY_SIZE
            data = self._file.pread(size, self._geometry.entry_position(ordinal))
            yield from map(IndexEntry._make, ENTRY.iter_unpack(data))
            ordinal += size // ENTRY_SIZE

    # ---- going back ------------------------------------------------------------------------------

    def keep(self, next_ordinal: int, end_ms: int) -> bool:
        """Keep exactly the entries below `next_ordinal`, which were synced.

        `end_ms`: store time of the last of them. Makes the slots anew unless the header has the
        same end, which shows that they were synced. False when some of the entries are missing.
        """
        if not 1 <= next_ordinal <= self._geometry.entries:
            return False
        last = self.entry(next_ordinal - 1) if next_ordinal > 1 else None
        found = self.header
        if (
            last is not None
            and found.next_ordinal == next_ordinal
            # A header torn in the middle has the old count and newer fields before it.
            and found.end_offset == last.physical_offset
            and found.end_timestamp_ms == end_ms
        ):
            return True
        if last is not None and last.physical_offset < self.header.begin_offset:
            return False
        used = self._remake_slots(next_ordinal)
        self._zero_behind(self._geometry.entry_position(next_ordinal))
        self._unsynced = self._remade = True
        if last is None:
            self.header = IndexHeader()
        else:
            self.header = self.header._replace(
                end_timestamp_ms=end_ms,
                end_offset=last.physical_offset,
                used_slots=used,
                next_ordinal=next_ordinal,
            )
        return True

    def cut(self, position: int, store_time_of: Callable[[int], int] | None = None) -> None:
        """Remove the entries of messages at or above `position`. The header's count is right.

        The new end time is `store_time_of(position)` of the last message that is left; without that
        function it is the time in its entry, which is exact to the second only.
        """
        low, high = 1, self.header.next_ordinal
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).physical_offset < position:
                low = middle + 1
            else:
                high = middle
        if low < self.header.next_ordinal:
            last = self.entry(low - 1) if low > 1 else None
            end_ms = 0
            if last is not None:
                end_ms = self.header.begin_timestamp_ms + last.seconds * 1000
                if store_time_of is not None:
                    end_ms = store_time_of(last.physical_offset)
            kept = self.keep(low, end_ms)
            assert kept, "entries below the end are whole"

    def _remake_slots(self, next_ordinal: int) -> int:
        """Make the slots from the entries below `next_ordinal`; return how many are in use."""
        slot_count = self._geometry.slots
        slots = zero_memory(slot_count * SLOT_SIZE)
        ordinal, used = 1, 0
        while ordinal < next_ordinal:
            size = min(_ENTRIES_AT_ONCE, next_ordinal - ordinal) * ENTRY_SIZE
            data = self._file.pread(size, self._geometry.entry_position(ordinal))
            used += fill_index_slots(slots, slot_count, data, ordinal)
            ordinal += size // ENTRY_SIZE
        self._slots = slots
        self._dirty_pages = bytearray(b"\1" * self._page_count)
        return used

    def _zero_behind(self, at: int) -> None:
        """Zero the file's bytes from `at` on, up to the first MiB that is all zero."""
        while at < self._file.size:
            size = min(len(_ZEROS), self._file.size - at)
            written = len(self._file.pread(size, at).rstrip(b"\0"))
            if not written:
                return
            self._file.pwrite(memoryview(_ZEROS)[:written], at)
            at += size

    # ---- durability ------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """True if keys were added since the last sync."""
        return self._unsynced

    def capture(self) -> IndexSync:
        """Take changed slots and the header as a task; once it ran, all entries are durable."""
        dirty, self._dirty_pages = self._dirty_pages, bytearray(self._page_count)
        pages = [found.span() for found in _DIRTY.finditer(dirty)]
        writes: list[tuple[int, bytes]] = []
        for first, behind in pages:
            begin, end = first << _PAGE_SHIFT, behind << _PAGE_SHIFT
            writes.append((HEADER_SIZE + begin, self._loaded_slots()[begin:end]))
        remade, self._unsynced, self._remade = self._remade, False, False
        return IndexSync(self._file, pages, writes, pack_header(self.header), remade=remade)

    def again(self, task: IndexSync) -> None:
        """Mark the pages of `task` dirty again: it found no free space and wrote no byte."""
        for begin, end in task.pages:
            self._dirty_pages[begin:end] = b"\1" * (end - begin)
        self._unsynced = True
        self._remade |= task.remade

    def forget_slots(self) -> None:
        """Free the memory of the slots; they must be in the file."""
        if self._slots is not None:
            assert not any(self._dirty_pages)
            self._slots.close()
            self._slots = None

    def close(self) -> None:
        """Release file and memory, without a write."""
        self._dirty_pages = bytearray()
        self.forget_slots()
        self._file.close()


class IndexSync:
    """Writes the slots and header of one moment: call `allocate_blocks`, then `run`, in any thread.

    `pages`: runs of changed pages of slots, as (first, one behind the last). `remade`: the slots
    were made anew, so those in the file are wrong until `run` has written all of them.
    """

    def __init__(
        self,
        file: File,
        pages: list[tuple[int, int]],
        slots: list[tuple[int, bytes]],
        header: bytes,
        *,
        remade: bool,
    ) -> None:
        self._file, self.pages, self._slots, self._header = file, pages, slots, header
        self.remade = remade

    def allocate_blocks(self) -> None:
        """Get blocks for all that `run` writes. Raises OSError (ENOSPC) before any write."""
        self._file.allocate_range(0, HEADER_SIZE)
        for position, data in self._slots:
            self._file.allocate_range(position, position + len(data))

    def run(self) -> None:
        """Write and sync the header, then the slots. Raises OSError.

        The header goes first, so that after a crash between the two it differs from the dispatch
        mark, and `keep` does not trust slots that are half written.
        """
        begun = self._header[:-4] + bytes(4) if self.remade else self._header
        self._file.pwrite(begun, 0)
        self._file.datasync()
        for position, data in self._slots:
            self._file.pwrite(data, position)
        if self._header != begun:
            self._file.datasync()
            self._file.pwrite(self._header, 0)
        self._file.datasync()


def _plain(column: Any) -> Sequence[int]:
    """The column as Python's own numbers if it is an array."""
    plain: Sequence[int] = column.tolist() if hasattr(column, "tolist") else column
    return plain
