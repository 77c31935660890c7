"""Insertion and query rules of index files, against an obvious model (docs/spec/store.md 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreDamaged
from commitlog.index.index_format import (
    ENTRY,
    SECONDS_MAX,
    IndexEntry,
    IndexGeometry,
    IndexHeader,
    index_keys,
    key_hash,
    overlaps,
    pack_header,
    place,
    place_many,
    seconds_since,
    successor_header,
    unpack_header,
    walk,
)

from ..strategies import random_search

GEOMETRY = IndexGeometry(slots=3, entries=9)
puts = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 10_000), st.integers(0, 20_000)), max_size=15
)
NEVER = 1 << 62


def insert_one_by_one(
    header: IndexHeader, slots: dict[int, int], keys: list[tuple[int, int, int]]
) -> tuple[list[IndexEntry], IndexHeader]:
    entries = []
    for hash_of_key, offset, store_ms in keys:
        if header.is_full(GEOMETRY):
            break
        slot = GEOMETRY.slot_of(hash_of_key)
        old, slots[slot] = slots.get(slot, 0), header.next_ordinal
        entry, header = place(header, old, hash_of_key, offset, store_ms)
        entries.append(entry)
    return entries, header


@random_search
@given(puts, st.dictionaries(st.integers(0, 2), st.integers(-1, 9)), st.integers(1, 9))
def test_many_at_once_is_one_by_one(
    keys: list[tuple[int, int, int]], before: dict[int, int], next_ordinal: int
) -> None:
    header = IndexHeader(500, 900, 1, 2, 3, next_ordinal)
    slots = dict(before)
    entries, after = insert_one_by_one(header, slots, keys)
    placed = place_many(header, GEOMETRY, keys, lambda slot: before.get(slot, 0))
    assert placed.header == after
    assert placed.taken == len(entries) <= GEOMETRY.entries - 1
    assert placed.entries == b"".join(ENTRY.pack(*entry) for entry in entries)
    assert before | placed.slots == slots


@random_search
@given(puts, st.integers(0, 8), st.integers(0, 20_000), st.integers(0, 20_000), st.integers(1, 9))
def test_a_walk_finds_what_a_search_of_all_finds(
    keys: list[tuple[int, int, int]], wanted: int, first_ms: int, last_ms: int, hits_max: int
) -> None:
    slots: dict[int, int] = {}
    keys.sort(key=lambda key: key[2])  # store times do not fall
    entries, header = insert_one_by_one(IndexHeader(), slots, keys)
    found = walk(
        header,
        slots.get(GEOMETRY.slot_of(wanted), 0),
        lambda ordinal: entries[ordinal - 1],
        wanted,
        first_ms,
        last_ms,
        hits_max,
    )
    begin_ms = header.begin_timestamp_ms
    expected = [
        entry.physical_offset
        for entry in reversed(entries)
        if entry.key_hash == wanted and first_ms <= begin_ms + entry.seconds * 1000 <= last_ms
    ]
    assert found == expected[:hits_max]


def test_a_damaged_chain_ends() -> None:
    header = IndexHeader(next_ordinal=5)
    circle = {1: IndexEntry(7, 10, 0, 2), 2: IndexEntry(7, 20, 0, 1), 3: IndexEntry(7, 30, 0, 3)}
    assert walk(header, 2, circle.__getitem__, 7, 0, NEVER) == [20, 10]
    assert walk(header, 3, circle.__getitem__, 7, 0, NEVER) == [30]
    assert walk(header, 6, circle.__getitem__, 7, 0, NEVER) == []
    assert walk(header, -1, circle.__getitem__, 7, 0, NEVER) == []
    negative = {4: IndexEntry(7, 40, -1, 3)} | circle
    assert walk(header, 4, negative.__getitem__, 7, 0, NEVER) == []


def test_headers() -> None:
    header = IndexHeader(1, 2, 3, 4, 5, 6)
    assert unpack_header(pack_header(header) + b"more") == header
    assert unpack_header(bytes(40)) == IndexHeader()
    assert unpack_header(pack_header(header._replace(next_ordinal=-7))).next_ordinal == 1
    assert successor_header(header) == IndexHeader(2, 2, 4, 4, 0, 1)
    with pytest.raises(StoreDamaged):
        unpack_header(bytes(39))


def test_the_first_entry_after_a_full_file_counts_from_its_predecessor() -> None:
    header = successor_header(IndexHeader(1000, 5000, 0, 70, 1, 9))
    entry, after = place(header, 0, 1, 80, 9999)
    assert (entry.seconds, after.begin_timestamp_ms, after.begin_offset) == (4, 9999, 80)


def test_seconds() -> None:
    assert seconds_since(0, 5000) == 0
    assert seconds_since(5000, 4000) == 0
    assert seconds_since(1, 1 << 62) == SECONDS_MAX


def test_keys_and_hashes() -> None:
    assert index_keys("T", "U", ["a", "", "b"]) == ["T#U", "T#a", "T#b"]
    assert index_keys("T", None, []) == []
    assert key_hash("polygenelubricants") == 0


@pytest.mark.parametrize(
    ("first", "last", "hit"),
    [(0, 9, False), (0, 10, True), (12, 15, True), (20, 30, True), (21, 30, False), (0, 30, True)],
)
def test_overlap(first: int, last: int, hit: bool) -> None:
    assert overlaps(IndexHeader(10, 20), first, last) is hit
