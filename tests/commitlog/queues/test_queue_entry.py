"""Entries of consume queues: layout, fillers, tags codes, extension addresses.

Source: docs/spec/store.md 3.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from commitlog.queues.queue_entry import (
    ENTRY_SIZE,
    EXT_OFFSET_MAX,
    PRE_BLANK,
    QueueEntry,
    ext_address,
    ext_offset,
    is_ext_address,
    pack_entries,
    pack_entry,
    tags_code,
    unpack_entries,
    unpack_entry,
)
from commitlog.records.java import string_hash

from ..strategies import int32, int64, random_search, texts

entries = st.builds(QueueEntry, int64, int32, int64)


@random_search
@given(st.lists(entries, max_size=5))
def test_round_trip(some: list[QueueEntry]) -> None:
    data = b"".join(pack_entry(*entry) for entry in some)
    assert list(unpack_entries(data)) == some
    assert [unpack_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)] == some
    columns: list[tuple[int, ...]] = list(zip(*some, strict=True)) or [(), (), ()]
    assert pack_entries(*columns) == data


def test_what_counts_as_written() -> None:
    assert not unpack_entry(bytes(ENTRY_SIZE)).is_written
    assert not QueueEntry(-1, 5, 0).is_written
    assert unpack_entry(PRE_BLANK).is_written
    assert unpack_entry(PRE_BLANK).is_filler
    assert not QueueEntry(0, 179, 0).is_filler


@random_search
@given(texts, st.integers(0, EXT_OFFSET_MAX))
def test_no_hash_looks_like_an_address(tags: str, offset: int) -> None:
    assert not is_ext_address(tags_code(tags))
    assert is_ext_address(ext_address(offset))
    assert ext_offset(ext_address(offset)) == offset
    assert pack_entry(0, 0, ext_address(0))[12:].hex() == "8000000000000000"


def test_tags_codes() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("a || b") == string_hash("a || b")  # the whole string
