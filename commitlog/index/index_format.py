"""Key index files: geometry, header, and the rules of insertion and query; pure.

Source: docs/spec/store.md 4.

      0   8  begin store time (ms)         header, 40 bytes
      8   8  end store time (ms)
     16   8  begin physical offset
     24   8  end physical offset
     32   4  used slots
     36   4  count = entries + 1 (0 in a file never used)
     40      slots, 4 bytes each: ordinal of the newest entry with this hash modulo slots, 0 = none
             entries, 20 bytes each: key hash (4) | physical offset (8)
                                     | seconds since begin (4) | ordinal of the previous entry (4)

Entry ordinals begin at 1; place 0 exists and is never used. Only hashes are stored, so
a query also returns collisions: the caller compares the real keys.

A crash may leave a file whose header, slots and entries are of different moments. As in Java, the
store then deletes every file that is newer than the checkpoint and dispatches again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.java import string_hash

HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
ENTRY_SIZE: Final = 20
SECONDS_MAX: Final = 0x7FFFFFFF
QUERY_HITS_MAX: Final = 64  # RocketMQ's maxMsgsNumBatch; callers ask for 32 by default

HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")

assert HEADER.size == HEADER_SIZE
assert ENTRY.size == ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class IndexGeometry:
    """Sizes that every program which opens the store must agree on; a file does not say them."""

    slots: int = 5_000_000
    entries: int = 20_000_000  # ordinal 0 counted, which is never used

    @property
    def file_size(self) -> int:
        """Bytes of a whole file: header, slots and entries."""
        return HEADER_SIZE + self.slots * SLOT_SIZE + self.entries * ENTRY_SIZE

    def slot_of(self, key_hash: int) -> int:
        """Slot number of a (non-negative) key hash."""
        return key_hash % self.slots

    def slot_position(self, slot: int) -> int:
        """Byte address of a slot in the file."""
        return HEADER_SIZE + slot * SLOT_SIZE

    def entry_position(self, ordinal: int) -> int:
        """Byte address of an entry in the file."""
        return HEADER_SIZE + self.slots * SLOT_SIZE + ordinal * ENTRY_SIZE


class IndexHeader(NamedTuple):
    """The header as it is in memory: `count` is at least 1."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    next_ordinal: int = 1

    def is_full(self, geometry: IndexGeometry) -> bool:
        """True if the file has no place for another entry."""
        return self.next_ordinal >= geometry.entries


class IndexEntry(NamedTuple):
    """`previous` is the ordinal of the next older entry of the same slot, 0 = none."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


def pack_header(header: IndexHeader) -> bytes:
    """The 40 bytes of a header."""
    return HEADER.pack(*header)


def unpack_header(data: Buffer) -> IndexHeader:
    """The header in the first 40 bytes; a count below 1 reads as 1. Raises StoreDamaged."""
    if len(data) < HEADER_SIZE:
        raise StoreDamaged(f"an index header has {HEADER_SIZE} bytes, here are {len(data)}")
    header = IndexHeader._make(HEADER.unpack_from(data))
    return header if header.next_ordinal > 0 else header._replace(next_ordinal=1)


def successor_header(predecessor: IndexHeader) -> IndexHeader:
    """Header of the file that follows a full one; begin is overwritten by its first entry."""
    time_ms = max(predecessor.end_timestamp_ms, 0)
    offset = max(predecessor.end_offset, 0)
    return IndexHeader(time_ms, time_ms, offset, offset)


def key_hash(text: str) -> int:
    """Hash of an index key `topic#k`: the Java hash made non-negative, int minimum gives 0."""
    value = abs(string_hash(text))
    return 0 if value >> 31 else value


def index_keys(topic: str, unique_key: str | None, keys: Iterable[str]) -> list[str]:
    """The texts that a message is indexed under, in Java's order: unique key first."""
    result = [f"{topic}#{unique_key}"] if unique_key else []
    result.extend(f"{topic}#{key}" for key in keys if key)
    return result


def seconds_since(begin_timestamp_ms: int, store_timestamp_ms: int) -> int:
    """Time field of an entry: whole seconds, within 0..2^31 - 1; 0 while begin is not set."""
    if begin_timestamp_ms <= 0:
        return 0
    return min(max(store_timestamp_ms - begin_timestamp_ms, 0) // 1000, SECONDS_MAX)


def place(
    header: IndexHeader,
    slot_value: int,
    hash_of_key: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[IndexEntry, IndexHeader]:
    """The entry to write at ordinal `header.next_ordinal`, and the header after it.

    `slot_value` is the ordinal in the key's slot; the caller puts `header.next_ordinal` there. The
    file must not be full.
    """
    ordinal = header.next_ordinal
    previous = slot_value if 0 < slot_value <= ordinal else 0
    seconds = seconds_since(header.begin_timestamp_ms, store_timestamp_ms)
    first = ordinal <= 1
    after = IndexHeader(
        store_timestamp_ms if first else header.begin_timestamp_ms,
        store_timestamp_ms,
        physical_offset if first else header.begin_offset,
        physical_offset,
        header.used_slots + (previous == 0),
        ordinal + 1,
    )
    return IndexEntry(hash_of_key, physical_offset, seconds, previous), after


class Placed(NamedTuple):
    """Outcome of `place_many`: bytes for the next ordinals, slots that changed, header after."""

    entries: bytes
    slots: dict[int, int]
    header: IndexHeader
    taken: int


def place_many(
    header: IndexHeader,
    geometry: IndexGeometry,
    keys: Iterable[tuple[int, int, int]],
    slot_values: Callable[[int], int] | Mapping[int, int],
) -> Placed:
    """Insert (key hash, physical offset, store time) one after the other, as `place` does.

    Stops when the file is full: `taken` is the number of entries inserted. `slot_values` gives the
    ordinal in a slot before. The entries belong at `entry_position(header.next_ordinal)`.
    """
    read_slot = slot_values.__getitem__ if isinstance(slot_values, Mapping) else slot_values
    begin_ms, end_ms, begin_offset, end_offset, used, ordinal = header
    first_ordinal, slot_count, entries_max = ordinal, geometry.slots, geometry.entries
    changed: dict[int, int] = {}
    parts: list[bytes] = []
    pack = ENTRY.pack
    for hash_of_key, physical_offset, store_ms in keys:
        if ordinal >= entries_max:
            break
        slot = hash_of_key % slot_count
        previous = changed.get(slot, 0)
        if not previous:
            previous = read_slot(slot)
            if previous <= 0 or previous > ordinal:
                previous = 0
                used += 1
        seconds = 0
        if store_ms > begin_ms > 0:
            seconds = min((store_ms - begin_ms) // 1000, SECONDS_MAX)
        parts.append(pack(hash_of_key, physical_offset, seconds, previous))
        changed[slot] = ordinal
        if ordinal <= 1:
            begin_ms, begin_offset = store_ms, physical_offset
        ordinal += 1
        end_ms, end_offset = store_ms, physical_offset
    after = IndexHeader(begin_ms, end_ms, begin_offset, end_offset, used, ordinal)
    return Placed(b"".join(parts), changed, after, ordinal - first_ordinal)


def overlaps(header: IndexHeader, begin_ms: int, end_ms: int) -> bool:
    """Is the file worth searching for entries of `begin_ms`..`end_ms`?"""
    first, last = header.begin_timestamp_ms, header.end_timestamp_ms
    encloses = begin_ms < first and end_ms > last
    return encloses or first <= begin_ms <= last or first <= end_ms <= last


def walk(
    header: IndexHeader,
    slot_value: int,
    read_entry: Callable[[int], IndexEntry],
    hash_of_key: int,
    begin_ms: int,
    end_ms: int,
    hits_max: int = QUERY_HITS_MAX,
) -> list[int]:
    """Physical offsets of the entries with that hash and time, newest first.

    `read_entry` gives the entry of an ordinal. Ordinals fall along a chain; one that does not
    (damage) ends the walk, so it always ends.
    """
    hits: list[int] = []
    ordinal, ordinal_max = slot_value, header.next_ordinal
    while 0 < ordinal <= ordinal_max and len(hits) < hits_max:
        entry = read_entry(ordinal)
        if entry.seconds < 0:
            break
        time_ms = header.begin_timestamp_ms + entry.seconds * 1000
        if entry.key_hash == hash_of_key and begin_ms <= time_ms <= end_ms:
            hits.append(entry.physical_offset)
        if time_ms < begin_ms:
            break
        ordinal, ordinal_max = entry.previous, ordinal - 1
    return hits
