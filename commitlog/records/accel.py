"""Batch versions of the per-message steps of dispatch; with numpy if it was loaded, else without.

numpy costs some 7 MB and 0.05 s to import, so only `load()` imports it, at a node's start-up.
Each function has a plain twin with the same result for every input, which serves
small batches, too, where numpy's fixed cost is higher.

    here                 numpy itself; hashes of many `topic#key`: a third of the plain time
    accel_index.py       slots of an index file, insertion of many keys
    accel_columns.py     a stretch of log entries as columns, with accel_tails.py
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final

from commitlog.records import java

BATCH_MIN: Final = 16  # below, the plain twin is faster
_THREADS: Final = "OPENBLAS_NUM_THREADS"

_numpy: Any = None
_weights: dict[int, Any] = {}


def load() -> bool:
    """Import numpy if it is there; True when the accelerators are on."""
    global _numpy
    if _numpy is None:
        before = os.environ.get(_THREADS)
        os.environ[_THREADS] = "1"  # no threads for linear algebra, which nothing here needs
        try:
            _numpy = importlib.import_module("numpy")
        except ImportError:
            return False
        finally:
            if before is None:
                del os.environ[_THREADS]
            else:
                os.environ[_THREADS] = before
    return True


def numpy() -> Any:
    """The module, None unless it was loaded."""
    return _numpy


def unload() -> None:
    """Use the plain twins from now on; for tests and comparisons."""
    global _numpy
    _numpy = None


def is_loaded() -> bool:
    """True if numpy does the batches."""
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
    """The hash of each topic and key, as the index has them; without numpy."""
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
    starts = _numpy.array(list(map(_topic_hash, topics)), dtype=_numpy.uint32)
    starts *= _numpy.uint32(_POWERS[size])
    matrix = _numpy.frombuffer(joined, dtype=_numpy.uint8).reshape(len(keys), size)
    result: list[int] = _hash_rows(starts, matrix).tolist()
    return result


def hashes_of_rows(topic: bytes, keys: Any) -> Any:
    """Index hashes of `topic#key`, an array; `keys` is a matrix of ASCII bytes, a key in each row.

    Needs numpy.
    """
    if keys.shape[1] >= len(_POWERS):
        return _numpy.array([index_key_hash(topic, bytes(key)) for key in keys])
    start = _topic_hash(topic) * _POWERS[keys.shape[1]] & _MASK
    return _hash_rows(_numpy.uint32(start), keys)


def _hash_rows(starts: Any, keys: Any) -> Any:
    """Hashes of keys behind prefixes; `starts`: the prefixes' hashes times a power of 31."""
    size = keys.shape[1]
    weights = _weights.get(size)
    if weights is None:
        weights = _weights[size] = _numpy.array(_POWERS[:size][::-1], dtype=_numpy.uint32)
    hashes = keys.astype(_numpy.uint32) @ weights
    hashes += starts
    signed = _numpy.abs(hashes.view(_numpy.int32))
    signed[signed < 0] = 0  # int minimum stays negative under abs
    return signed
