"""Java results that RocketMQ writes to disk: string hashes and the order of a HashMap.

`String.hashCode` is h = 31·h + c over UTF-16 code units, wrapping at 32 bits, read as signed. It
is the tags code of a queue entry (docs/spec/store.md 3.1) and, made non-negative, the hash of an
index key (docs/spec/store.md 4). Two facts make it cheap here: the sum of c·31^k runs in C, and
H(prefix + s) = H(prefix)·31^len(s) + H(s), so a prefix is hashed once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import mul

_BLOCK = 64  # units summed at once; keeps the sum within a few machine words
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_BLOCK + 1))
_WEIGHTS = tuple(tuple(reversed(_POWERS[:length])) for length in range(_BLOCK + 1))

INT_MIN = -(1 << 31)


def utf16_units(text: str) -> bytes | tuple[int, ...]:
    """The UTF-16 code units of `text` as integers; its bytes when it is ASCII."""
    if text.isascii():
        return text.encode("ascii")
    data = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f">{len(data) // 2}H", data)


def utf16_length(text: str) -> int:
    """`String.length()`: characters outside the basic plane count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def hash_units(units: bytes | tuple[int, ...], start: int = 0) -> int:
    """Unsigned 32-bit hash of code units, continued from `start`, the hash of the text before."""
    size = len(units)
    if size <= _BLOCK:
        value: int = sum(map(mul, units, _WEIGHTS[size]), start * _POWERS[size])
        return value & 0xFFFFFFFF
    for begin in range(0, size, _BLOCK):
        start = hash_units(units[begin : begin + _BLOCK], start)
    return start


def string_hash(text: str) -> int:
    """`String.hashCode` of `text`, signed.

    >>> string_hash("TagA"), string_hash("polygenelubricants")
    (2598919, -2147483648)
    """
    return signed(hash_units(utf16_units(text)))


def signed(value: int) -> int:
    """The low 32 bits of `value` as a Java int."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def hash_map_order(names: Iterable[str], capacity: int = 16) -> list[str]:
    """`names` in the iteration order of a Java HashMap of `capacity`, filled in the given order.

    RocketMQ's client writes properties from a map of capacity 16 and its broker from one of 128
    (docs/spec/store.md 1.3). The order carries no meaning; it matters only for byte-identical
    blocks. (Java turns a bucket of more than eight keys into a tree; that is not reproduced.)
    """
    assert capacity.bit_count() == 1, "a HashMap's capacity is a power of two"
    distinct = list(dict.fromkeys(names))
    while len(distinct) > capacity * 3 // 4:
        capacity *= 2

    def bucket(name: str) -> int:
        value = hash_units(utf16_units(name))
        return (value ^ (value >> 16)) & (capacity - 1)

    return sorted(distinct, key=bucket)  # stable: insertion order within a bucket
