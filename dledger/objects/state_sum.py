"""Checksums of states that are too large to be read where a window of entries ends. Pure.

    a change ─► total += hash_of(new) - hash_of(old)          a comparison ─► total, and `part_of`

A sum does not depend on the order of its items. CRC-32 is linear, so the sums of two values that
changed places may be the same; their squares are not.

Memory that rots changes no sum. It shows when its item is changed again, or looked at: a comparison
reads some items anew, another part each time, which the sum chooses, so the same on every node. Its
size is bounded in items and in bytes, and it is found without passing over the items before it, so
a comparison takes as long for ten million items as for a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from commitlog.records.checksum import crc32
from dledger.machine.state_machine import json_bytes

T = TypeVar("T", covariant=True)

#: Items that one comparison reads anew, of each kind, and their bytes: a fifth of a ms, or a few ms
#: where values are large. The item that makes it so many bytes is read, too.
LOOK_COUNT, LOOK_BYTES = 256, 256 << 10


class Ordered(Protocol[T]):
    """Items in an order that is the same on every node, also on one that has taken a state.

    A slice takes time by its own length: a list, or `SortedKeys`.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, wanted: slice, /) -> Sequence[T]: ...


def bytes_of_pair(key: str, value: Any) -> bytes:
    """The bytes that are summed for a key with its JSON value: others for each other pair."""
    if type(value) is str:
        return f"{len(key)}:{key}{value}".encode()
    return b"%d,%b%b" % (len(key), key.encode(), json_bytes(value))


def hash_of_bytes(data: bytes) -> int:
    """64 bits: the same in every process, on every release of Python."""
    crc = crc32(data)
    return crc * crc


def hash_of(parts: Sequence[Any]) -> int:
    """As `hash_of_bytes`, of a list of JSON values."""
    return hash_of_bytes(json_bytes(parts))


def hash_of_pair(key: str, value: Any) -> int:
    """As `hash_of`, in half the time, of a key with its value."""
    return hash_of_bytes(bytes_of_pair(key, value))


def part_of(items: Ordered[T], chosen_by: int) -> Iterator[T]:
    """Up to LOOK_COUNT neighbours among the items; behind the last item follows the first one.

    For some number each item is the first of them, so each is read however few the bytes allow.
    """
    count = len(items)
    begin = 0
    if count > LOOK_COUNT:
        begin = checksum_of(chosen_by) % count  # sums of squares miss some remainders
    yield from items[begin : begin + LOOK_COUNT]
    if begin + LOOK_COUNT > count > LOOK_COUNT:
        yield from items[: begin + LOOK_COUNT - count]


def sum_anew(texts: Iterable[bytes]) -> int:
    """The sum of `hash_of_bytes`, of texts until they have LOOK_BYTES together."""
    total = size = 0
    for text in texts:
        total += hash_of_bytes(text)
        size += len(text)
        if size >= LOOK_BYTES:
            break
    return total


def checksum_of(*numbers: int) -> int:
    """32 bits of the numbers in this order."""
    return crc32(b" ".join(b"%d" % number for number in numbers))
