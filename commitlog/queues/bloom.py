"""Bloom filter of SQL92 subscriptions: which groups want a message (docs/spec/store.md 7.5).

A group's k bit positions come from murmur3 (x64, 128 bits, seed 0) of `group#topic`. At dispatch
the positions of every group whose expression is true are set in a bitmap of m bits, which goes to
the queue's extension file; at pull a message is skipped unless all of the group's bits are set.
Bit p is bit p % 8 (least significant first) of byte p / 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from commitlog.errors import StoreConfigError
from commitlog.records.java import signed

_MASK64: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK64


def _mix_k1(value: int) -> int:
    return _rotate(value * _C1 & _MASK64, 31) * _C2 & _MASK64


def _mix_k2(value: int) -> int:
    return _rotate(value * _C2 & _MASK64, 33) * _C1 & _MASK64


def _finish(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK64
    return value ^ value >> 33


def murmur3_128(data: bytes) -> tuple[int, int]:
    """The two 64-bit halves, low first, as Guava's `murmur3_128` with seed 0."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 = (_rotate(h1 ^ _mix_k1(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK64
        h2 = (_rotate(h2 ^ _mix_k2(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK64
    h1 ^= _mix_k1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _mix_k2(int.from_bytes(data[whole + 8 :], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK64
    h2 = h2 + h1 & _MASK64
    h1, h2 = _finish(h1), _finish(h2)
    h1 = h1 + h2 & _MASK64
    return h1, h2 + h1 & _MASK64


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """k positions out of m bits; m is a multiple of 8."""

    k: int
    m: int

    def positions(self, group: str, topic: str) -> tuple[int, ...]:
        """The bits of one group and topic, in order i = 1..k (they may repeat)."""
        low, _ = murmur3_128(f"{group}#{topic}".encode("utf-8", "replace"))
        first, step = signed(low), signed(low >> 32)
        result: list[int] = []
        for i in range(1, self.k + 1):
            value = signed(first + i * step)
            result.append((~value if value < 0 else value) % self.m)
        return tuple(result)

    def empty(self) -> bytearray:
        """A bitmap of `m` bits, all of them 0."""
        return bytearray(self.m // 8)


def new_bloom_filter(error_percent: int = 20, consumers: int = 32) -> BloomFilter:
    """Filter for that many groups at that rate of false hits. Raises StoreConfigError."""
    if not 1 <= error_percent <= 99 or consumers < 1:
        raise StoreConfigError(
            f"a bloom filter of {consumers} consumers with {error_percent} % error is impossible; "
            "use at least 1 consumer and 1 to 99 %"
        )
    error = error_percent / 100
    k = math.ceil(math.log(error) / math.log(0.5))
    m = math.ceil(consumers * math.log2(1 / error) * math.log2(math.e))
    return BloomFilter(k, (m + 7) // 8 * 8)


def set_bits(bitmap: bytearray, positions: Iterable[int]) -> None:
    """Set the bits at these positions, in place."""
    for position in positions:
        bitmap[position >> 3] |= 1 << (position & 7)


def has_bits(bitmap: bytes | bytearray, positions: Iterable[int]) -> bool:
    """Are all of the positions set?"""
    return all(bitmap[position >> 3] >> (position & 7) & 1 for position in positions)
