"""Slots and insertion by numpy against the plain versions."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.index import accel_index
from commitlog.index.index_format import ENTRY, SLOT, IndexGeometry, IndexHeader, place_many
from commitlog.records import accel

from ..strategies import random_search


@pytest.fixture(autouse=True, params=[True, False], ids=["numpy", "plain"])
def _with_and_without(request: pytest.FixtureRequest) -> Iterator[None]:
    before = accel.is_loaded()
    assert accel.load()
    if not request.param:
        accel.unload()
    yield
    if before:
        accel.load()
    else:
        accel.unload()


@random_search
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3)), max_size=60), st.integers(1, 50))
def test_slots(some: list[tuple[int, int]], slot_count: int) -> None:
    entries = b"".join(ENTRY.pack(key_hash, 7, 1, previous) for key_hash, previous in some)
    plain, fast = bytearray(slot_count * 4), bytearray(slot_count * 4)
    used = accel_index.plain_fill_index_slots(plain, slot_count, entries, 5)
    assert accel_index.fill_index_slots(fast, slot_count, entries, 5) == used
    assert fast == plain
    last = {key_hash % slot_count: 5 + at for at, (key_hash, _) in enumerate(some)}
    assert dict(enumerate(struct.unpack(f">{slot_count}i", plain))) == {
        slot: last.get(slot, 0) for slot in range(slot_count)
    }
    assert used == sum(previous == 0 for _, previous in some)


@random_search
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([3, 500, 100_000]),
    st.sampled_from([0, 5_000]),
)
def test_insertion(seed: int, slot_count: int, begin_ms: int) -> None:
    random = Random(seed)
    count = random.choice([1, accel_index.PLACE_MIN - 1, accel_index.PLACE_MIN, 300])
    some = [(random.randint(0, 5000), random.randint(0, 3000)) for _ in range(count)]
    geometry = IndexGeometry(slot_count, 10_000)
    keys = [(key, number * 9, 6_000 + ms) for number, (key, ms) in enumerate(some)]
    table = bytearray(slot_count * 4)
    for slot in range(0, slot_count, 2):
        # Old ordinals, and some that are reached within the batch only.
        SLOT.pack_into(table, slot * 4, 7 if slot % 4 else 40)
    before = bytes(table)
    header = IndexHeader(begin_ms, 6_000, 1, 2, 7, 12)
    placed = place_many(header, geometry, keys, lambda slot: SLOT.unpack_from(before, slot * 4)[0])
    dirty = bytearray(slot_count // 1024 + 1)
    columns = ([key[column] for key in keys] for column in range(3))
    fast = accel_index.place_index_keys(table, slot_count, header, *columns, dirty)
    if fast is None:
        assert table == before
        assert not any(dirty)
        assert not accel.is_loaded() or len(keys) < accel_index.PLACE_MIN
        return
    assert fast == (placed.entries, placed.header)
    assert {page for page, is_dirty in enumerate(dirty) if is_dirty} == {
        slot // 1024 for slot in placed.slots
    }
    for slot, ordinal in placed.slots.items():
        assert SLOT.unpack_from(table, slot * 4)[0] == ordinal
    for slot in set(range(slot_count)) - set(placed.slots):
        assert table[slot * 4 : slot * 4 + 4] == before[slot * 4 : slot * 4 + 4]


def test_keys_of_one_slot_import_no_more_of_numpy() -> None:
    """`numpy.isin` imports `numpy.ma`, 60 ms of the event loop, when it is called first."""
    program = """
import sys
from commitlog.index import accel_index
from commitlog.index.index_format import IndexHeader
from commitlog.records import accel
accel.load()
keys = [key * 1_000_003 for key in range(1000)] * 2
columns = keys, [number * 9 for number in range(2000)], [6_000] * 2000
table, dirty = bytearray(4 << 20), bytearray(1025)
header = IndexHeader(5_000, 6_000, 1, 2, 7, 12)
assert accel_index.place_index_keys(table, 1 << 20, header, *columns, dirty) is not None
assert "numpy" in sys.modules and "numpy.ma" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
