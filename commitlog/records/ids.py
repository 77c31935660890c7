"""Message ids, as text (docs/spec/store.md 6.8).

    offset id   store host IP (4/16) | port (4) | physical offset (8)           32 or 56 hex digits
    unique key  IP (4/16) | process id, low 16 bits (2) | class-loader hash (4)
                | ms since the month began, local time (4) | counter (2)         32 or 56 hex digits

The offset id says where the broker put a message, the unique key is made by the client before it
sends. Both are upper case.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from commitlog.errors import StoreUsageError
from commitlog.records.hosts import Host, pack_host, pack_ip, unpack_host, unpack_ip

_SIZES: Final = (16, 28)  # bytes with an IPv4 and an IPv6 address
_TAIL = struct.Struct(">HIIH")
_I64 = struct.Struct(">q")


def encode_offset_id(store_host: Host, physical_offset: int) -> str:
    """The id of the record at `physical_offset` on the broker at `store_host`."""
    return (pack_host(store_host) + _I64.pack(physical_offset)).hex().upper()


def decode_offset_id(text: str) -> tuple[Host, int]:
    """(store host, physical offset). Raises StoreUsageError for anything that is no offset id."""
    data = _from_hex(text, "offset message id")
    (physical_offset,) = _I64.unpack_from(data, len(data) - 8)
    if physical_offset < 0:
        raise StoreUsageError(f"{text!r} names a negative offset; give an offset message id")
    return unpack_host(data[:-8]), physical_offset


def _from_hex(text: str, kind: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in _SIZES or len(text) != 2 * len(data):
        raise StoreUsageError(
            f"{text[:80]!r} is no {kind}; give 32 or 56 hexadecimal digits (IPv4, IPv6)"
        )
    return data


class UniqueKey(NamedTuple):
    """The parts of a unique key; `elapsed_ms` counts from the month's first day, local time."""

    ip: str
    process_id: int
    loader_hash: int
    elapsed_ms: int
    counter: int


def encode_unique_key(key: UniqueKey) -> str:
    """The key in hexadecimal digits: 32, or 56 with an IPv6 address."""
    tail = _TAIL.pack(
        key.process_id & 0xFFFF,
        key.loader_hash & 0xFFFFFFFF,
        key.elapsed_ms & 0xFFFFFFFF,
        key.counter & 0xFFFF,
    )
    return (pack_ip(key.ip) + tail).hex().upper()


def decode_unique_key(text: str) -> UniqueKey:
    """The parts of a unique key. Raises StoreUsageError for other text, as some clients make."""
    data = _from_hex(text, "unique key")
    split = len(data) - _TAIL.size
    return UniqueKey(unpack_ip(data[:split]), *_TAIL.unpack_from(data, split))


def month_start_ms(now_ms: int) -> int:
    """ms since 1970 of the first moment of `now_ms`'s month in local time."""
    now = datetime.fromtimestamp(now_ms / 1000)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(start.timestamp() * 1000)


def next_month_start_ms(start_ms: int) -> int:
    """The month after the one that begins at `start_ms`."""
    start = datetime.fromtimestamp(start_ms / 1000)
    year, month = (start.year + 1, 1) if start.month == 12 else (start.year, start.month + 1)
    return int(start.replace(year=year, month=month).timestamp() * 1000)


def created_ms(key: UniqueKey, now_ms: int) -> int:
    """When the key was made, at most a month before `now_ms`."""
    start = month_start_ms(now_ms)
    if start + key.elapsed_ms >= now_ms:
        start = month_start_ms(start - 1)
    return start + key.elapsed_ms


@dataclass(slots=True)
class UniqueKeyGenerator:
    """Makes unique keys; one per process. Not for use from two threads.

    The counter has 16 bits and the time 1 ms, so up to 65,536 keys a millisecond are distinct.
    `clock_ms` is the wall clock.
    """

    ip: str
    process_id: int
    loader_hash: int
    clock_ms: Callable[[], int]
    _prefix: str = ""
    _start_ms: int = 0
    _next_ms: int = 0
    _elapsed_ms: int = 0
    _counter: int = 0

    def __post_init__(self) -> None:
        head = struct.pack(">HI", self.process_id & 0xFFFF, self.loader_hash & 0xFFFFFFFF)
        self._prefix = (pack_ip(self.ip) + head).hex().upper()

    def next(self) -> str:
        """A new unique key in hexadecimal digits: 32, or 56 with an IPv6 address."""
        now_ms = self.clock_ms()
        if now_ms >= self._next_ms:
            self._start_ms = month_start_ms(now_ms)
            self._next_ms = next_month_start_ms(self._start_ms)
            self._elapsed_ms = 0
        elapsed_ms = now_ms - self._start_ms
        if elapsed_ms < self._elapsed_ms:  # the clock went back: the counter alone is not enough
            elapsed_ms = self._elapsed_ms
        self._elapsed_ms = elapsed_ms
        counter = self._counter
        self._counter = counter + 1 & 0xFFFF
        return f"{self._prefix}{elapsed_ms & 0xFFFFFFFF:08X}{counter:04X}"
