"""Batch versions of what dispatch does per message; with numpy when it was loaded, else without.

numpy costs some 20 MB and 0.1 s to import, so nothing imports it by itself: `load()` does, at
start-up. Each function has a plain twin (`plain_…`) with the same result for every input, and
falls back to it for small batches, where numpy's fixed cost is higher.

    index_key_hashes   hashes of many `topic#key`; numpy takes a third of the plain time
    fill_index_slots   slots of an index file from its entries; a twentieth
    place_index_keys   insertion of many keys (index_format.place_many); a third, from 64 keys on

(Packing many queue or index entries was tried: a join of struct.pack is as fast up to some 100
entries, so it stays plain, in `queue_entry.py` and `index_format.py`.)
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

from commitlog import java
from commitlog.files import Buffer
from commitlog.index_format import ENTRY, ENTRY_SIZE, SECONDS_MAX, SLOT, SLOT_SIZE, IndexHeader

BATCH_MIN: Final = 16  # below, the plain twin is faster
PLACE_MIN: Final = 48  # the same for place_index_keys, which makes more calls

_numpy: Any = None
_weights: dict[int, Any] = {}


def load() -> bool:
    """Import numpy if it is there; True when the accelerators are on."""
    global _numpy
    if _numpy is None:
        try:
            _numpy = importlib.import_module("numpy")
        except ImportError:
            return False
    return True


def unload() -> None:
    """Use the plain twins from now on; for tests and comparisons."""
    global _numpy
    _numpy = None


def is_loaded() -> bool:
    return _numpy is not None


# -- hashes of index keys ------------------------------------------------------------------------

_PREFIXES_MAX: Final = 10_000  # topics and clients are few; bounds memory when they are not
_UNIQUE_KEY_SIZE: Final = 32
_STEM_SIZE: Final = 28  # IP, process, loader, ms: what a client's keys of one millisecond share
_topic_hashes: dict[bytes, int] = {}
_stem_hashes: dict[bytes, int] = {}

_MASK: Final = 0xFFFFFFFF
_POWERS: Final = tuple(pow(31, exponent, 1 << 32) for exponent in range(257))
_START_POWER: Final = _POWERS[_UNIQUE_KEY_SIZE]


def _hash_text(text: bytes, start: int = 0) -> int:
    """Unsigned Java hash of UTF-8 bytes, continued from `start`."""
    if text.isascii():
        return java.hash_units(text, start)
    return java.hash_units(java.utf16_units(str(text, "utf-8", "replace")), start)


def _remember(table: dict[bytes, int], text: bytes, value: int) -> int:
    if len(table) >= _PREFIXES_MAX:
        table.clear()
    table[text] = value
    return value


def _topic_hash(topic: bytes) -> int:
    """Unsigned hash of `topic#`, remembered."""
    known = _topic_hashes.get(topic)
    if known is not None:
        return known
    return _remember(_topic_hashes, topic, _hash_text(topic + b"#"))


def _stem_hash(stem: bytes) -> int:
    """Hash of a unique key's first 28 digits times 31^4, remembered."""
    return _remember(_stem_hashes, stem, java.hash_units(stem) * _POWERS[4] & _MASK)


def index_key_hash(topic: bytes, key: bytes) -> int:
    """`index_format.key_hash` of `topic#key`, from encoded pieces, with both beginnings remembered.

    H(a + b) = H(a)·31^len(b) + H(b): of a client's unique key often only the last 4 digits, its
    counter, are new.
    """
    start = _topic_hashes.get(topic)
    if start is None:
        start = _topic_hash(topic)
    if len(key) == _UNIQUE_KEY_SIZE and key.isascii():
        stem = key[:_STEM_SIZE]
        of_stem = _stem_hashes.get(stem)
        if of_stem is None:
            of_stem = _stem_hash(stem)
        a, b, c, d = key[_STEM_SIZE:]
        value = start * _START_POWER + of_stem + a * 29_791 + b * 961 + c * 31 + d & _MASK
    else:
        value = _hash_text(key, start)
    if value & 0x80000000:
        value = (1 << 32) - value
        return 0 if value == 0x80000000 else value
    return value


def plain_index_key_hashes(topics: Sequence[bytes], keys: Sequence[bytes]) -> list[int]:
    return list(map(index_key_hash, topics, keys))


def index_key_hashes(topics: Sequence[bytes], keys: Sequence[bytes]) -> list[int]:
    """Index hash of each `topics[i]#keys[i]` (UTF-8, not empty), in order."""
    assert len(topics) == len(keys), "one topic for each key"
    if _numpy is None or len(keys) < BATCH_MIN:
        return plain_index_key_hashes(topics, keys)
    sizes = list(map(len, keys))
    size = sizes[0]
    if sizes.count(size) == len(sizes):
        return _hashes_of_equal_length(topics, keys, size)
    groups: dict[int, list[int]] = {}
    for at, size in enumerate(sizes):
        groups.setdefault(size, []).append(at)
    result = [0] * len(keys)
    for size, places in groups.items():
        some = [keys[at] for at in places]
        those = [topics[at] for at in places]
        equal = _hashes_of_equal_length if len(places) >= BATCH_MIN else _plain_of_equal_length
        for at, value in zip(places, equal(those, some, size), strict=True):
            result[at] = value
    return result


def _plain_of_equal_length(topics: Sequence[bytes], keys: Sequence[bytes], _: int) -> list[int]:
    return plain_index_key_hashes(topics, keys)


def _hashes_of_equal_length(topics: Sequence[bytes], keys: Sequence[bytes], size: int) -> list[int]:
    """A row of a matrix for each key, times the powers of 31; 32-bit arithmetic wraps as Java's."""
    joined = b"".join(keys)
    if size >= len(_POWERS) or not joined.isascii():
        return plain_index_key_hashes(topics, keys)
    weights = _weights.get(size)
    if weights is None:
        powers = _POWERS[:size][::-1]
        weights = _weights[size] = _numpy.array(powers, dtype=_numpy.uint32)
    starts = _numpy.array(list(map(_topic_hash, topics)), dtype=_numpy.uint32)
    matrix = _numpy.frombuffer(joined, dtype=_numpy.uint8).reshape(len(keys), size)
    hashes = matrix.astype(_numpy.uint32) @ weights
    hashes += starts * _numpy.uint32(_POWERS[size])
    signed = _numpy.abs(hashes.view(_numpy.int32))
    signed[signed < 0] = 0  # int minimum stays negative under abs
    result: list[int] = signed.tolist()
    return result


# -- slots and entries of an index file ----------------------------------------------------------

_ENTRY_LAYOUT: Final = [
    ("hash", ">i4"),
    ("offset", ">i8"),
    ("seconds", ">i4"),
    ("previous", ">i4"),
]


def plain_fill_index_slots(slots: Any, slot_count: int, entries: Buffer, first: int) -> int:
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
    if _numpy is None or len(entries) < BATCH_MIN * ENTRY_SIZE:
        return plain_fill_index_slots(slots, slot_count, entries, first)
    rows = _numpy.frombuffer(entries, dtype=_ENTRY_LAYOUT)
    table = _numpy.frombuffer(slots, dtype=">i4")
    # Of a slot that comes twice the last ordinal stays, as with one write after the other.
    table[rows["hash"] % slot_count] = _numpy.arange(first, first + len(rows))
    return int((rows["previous"] == 0).sum())


def place_index_keys(
    slots: Any,
    slot_count: int,
    header: IndexHeader,
    hashes: Sequence[int],
    positions: Sequence[int],
    times_ms: Sequence[int],
) -> tuple[bytes, IndexHeader, list[int]] | None:
    """What `index_format.place_many` does, on a table of slots, which it fills.

    Returns (entries, header after, slots that changed). None when the plain version must do it:
    without numpy, for few keys, in a file's first entry, and when two keys share a slot. The file
    has room for all of them.
    """
    count, ordinal = len(hashes), header.next_ordinal
    if _numpy is None or count < PLACE_MIN or ordinal <= 1:
        return None
    table = _numpy.frombuffer(slots, dtype=">i4")
    places = _numpy.array(hashes, dtype=_numpy.int64)
    rows = _numpy.empty(count, dtype=_ENTRY_LAYOUT)
    rows["hash"] = places
    places %= slot_count
    previous = table[places]
    ordinals = _numpy.arange(ordinal, ordinal + count, dtype=_numpy.int32)
    table[places] = ordinals
    if (table[places] != ordinals).any():
        table[places] = previous  # two keys of one slot: their chain needs one after the other
        return None
    previous[(previous < 0) | (previous > ordinal)] = 0
    times = _numpy.array(times_ms, dtype=_numpy.int64)
    begin_ms = header.begin_timestamp_ms
    if begin_ms > 0:
        rows["seconds"] = ((times - begin_ms) // 1000).clip(0, SECONDS_MAX)
    else:
        rows["seconds"] = 0
    rows["offset"] = positions
    rows["previous"] = previous
    used = header.used_slots + int((previous == 0).sum())
    after = header._replace(
        end_timestamp_ms=times_ms[-1],
        end_offset=positions[-1],
        used_slots=used,
        next_ordinal=ordinal + count,
    )
    return rows.tobytes(), after, places.tolist()
