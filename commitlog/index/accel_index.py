"""Slots and entries of an index file, many at once; with numpy when it was loaded, else without.

fill_index_slots   slots of an index file from its entries; a twentieth of the plain time
place_index_keys   insertion of many keys (index_format.place_many); a tenth, from 48 keys on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from commitlog.files.system import Buffer
from commitlog.index.index_format import (
    ENTRY,
    ENTRY_SIZE,
    SECONDS_MAX,
    SLOT,
    SLOT_SIZE,
    IndexHeader,
)
from commitlog.records import accel

PLACE_MIN: Final = 48  # below, the plain version of place_index_keys is faster
SLOTS_SHIFT: Final = 10  # 1,024 slots are a page of 4 KiB

_ENTRY_LAYOUT: Final = [
    ("hash", ">i4"),
    ("offset", ">i8"),
    ("seconds", ">i4"),
    ("previous", ">i4"),
]


def plain_fill_index_slots(slots: Any, slot_count: int, entries: Buffer, first: int) -> int:
    """Point slots at `entries`, numbered from `first`; returns how many slots were empty."""
    used = 0
    for ordinal, (key_hash, _, _, previous) in enumerate(ENTRY.iter_unpack(entries), first):
        SLOT.pack_into(slots, key_hash % slot_count * SLOT_SIZE, ordinal)
        used += previous == 0
    return used


def fill_index_slots(slots: Any, slot_count: int, entries: Buffer, first: int) -> int:
    """Put the ordinals `first`, `first` + 1, … of `entries` into their slots, in that order.

    `slots` is a writable buffer of `slot_count` 4-byte slots; `entries` holds whole 20-byte
    entries with hashes ≥ 0. Returns how many of them were the first of their slot.
    """
    numpy = accel.numpy()
    if numpy is None or len(entries) < accel.BATCH_MIN * ENTRY_SIZE:
        return plain_fill_index_slots(slots, slot_count, entries, first)
    rows = numpy.frombuffer(entries, dtype=_ENTRY_LAYOUT)
    table = numpy.frombuffer(slots, dtype=">i4")
    # Of a slot that comes twice the last ordinal stays, as with one write after the other.
    table[rows["hash"] % slot_count] = numpy.arange(first, first + len(rows))
    return int((rows["previous"] == 0).sum())


def place_index_keys(
    slots: Any,
    slot_count: int,
    header: IndexHeader,
    hashes: Sequence[int],
    positions: Sequence[int],
    times_ms: Sequence[int],
    dirty: bytearray,
) -> tuple[bytes, IndexHeader] | None:
    """Insert many keys as `index_format.place_many` does, into `slots`, a table in memory.

    The three columns are sequences or arrays; the file has space for all of them. `dirty` has a
    byte for each page of 1,024 slots; 1 is put where a slot changed. Returns (entries, header
    after). None, with nothing done, when the plain version must do it: without numpy, for few keys
    and in a file's first entry.
    """
    numpy = accel.numpy()
    count, ordinal = len(hashes), header.next_ordinal
    if numpy is None or count < PLACE_MIN or ordinal <= 1:
        return None
    table = numpy.frombuffer(slots, dtype=">i4")
    places = numpy.asarray(hashes, dtype=numpy.int64)
    rows = numpy.empty(count, dtype=_ENTRY_LAYOUT)
    rows["hash"] = places
    places = places % slot_count
    previous = table[places].astype(numpy.int64)
    ordinals = numpy.arange(ordinal, ordinal + count)
    previous[(previous < 0) | (previous > ordinals)] = 0
    # Of a slot that comes twice the last ordinal stays, as with one write after the other.
    table[places] = ordinals
    replaced = table[places] != ordinals
    if replaced.any():
        _chain(numpy, places, ordinals, previous)
    numpy.frombuffer(dirty, dtype=numpy.uint8)[places >> SLOTS_SHIFT] = 1
    times = numpy.asarray(times_ms, dtype=numpy.int64)
    begin_ms = header.begin_timestamp_ms
    if begin_ms > 0:
        rows["seconds"] = ((times - begin_ms) // 1000).clip(0, SECONDS_MAX)
    else:
        rows["seconds"] = 0
    rows["offset"] = positions
    rows["previous"] = previous
    after = header._replace(
        end_timestamp_ms=int(times_ms[-1]),
        end_offset=int(positions[-1]),
        used_slots=header.used_slots + int((previous == 0).sum()),
        next_ordinal=ordinal + count,
    )
    return rows.tobytes(), after


def _chain(numpy: Any, places: Any, ordinals: Any, previous: Any) -> None:
    """Some slots come more than once: there each key's previous one is the one before it.

    Without numpy's functions for sets: the first call of one imports `numpy.ma`, 60 ms of the loop.
    """
    rows = numpy.argsort(places, kind="stable")
    same = places[rows[1:]] == places[rows[:-1]]
    previous[rows[1:][same]] = ordinals[rows[:-1][same]]
