"""Checksums of states that are too large to be read where a window of entries ends. Pure.

    a change ─► total += hash_of(new) - hash_of(old)          a comparison ─► total, and `part_of`

A sum does not depend on the order of its items. CRC-32 is linear, so the sums of two values that
changed places may be the same; their squares are not.

Memory that rots changes no sum. It shows when its item is changed again, or looked at: a comparison
reads some items anew, another part each time, which the sum chooses, so the same on every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Reversible, Sequence, Sized
from itertools import islice
from typing import Any, Protocol, TypeVar

from commitlog.records.checksum import crc32
from dledger.machine.state_machine import json_bytes

T = TypeVar("T", covariant=True)

#: Items that one comparison reads anew, of each kind: a fifth of a ms.
LOOK_COUNT = 256


class Ordered(Reversible[T], Sized, Protocol[T]):
    """Items in an order that is the same on every node, also on one that has taken a state.

    A list, or a dictionary's items as commands added them.
    """


def hash_of(parts: Sequence[Any]) -> int:
    """64 bits of a list of JSON values: the same in every process, on every release of Python."""
    crc = crc32(json_bytes(parts))
    return crc * crc


def hash_of_pair(key: str, value: Any) -> int:
    """As `hash_of`, in half the time, of a key with its value."""
    if type(value) is str:
        crc = crc32(f"{len(key)}:{key}{value}".encode())
    else:
        crc = crc32(b"%d,%b%b" % (len(key), key.encode(), json_bytes(value)))
    return crc * crc


def part_of(items: Ordered[T], chosen_by: int) -> Iterable[T]:
    """Up to LOOK_COUNT neighbours among the items, each as likely as another for some number."""
    count = len(items)
    blocks = -(-count // LOOK_COUNT) or 1
    begin = checksum_of(chosen_by) % blocks * LOOK_COUNT  # sums of squares miss some remainders
    end = min(begin + LOOK_COUNT, count)
    if begin + end <= count:
        return islice(items, begin, end)
    return islice(reversed(items), count - end, count - begin)  # so that less is passed over


def checksum_of(*numbers: int) -> int:
    """32 bits of the numbers in this order."""
    return crc32(b" ".join(b"%d" % number for number in numbers))
