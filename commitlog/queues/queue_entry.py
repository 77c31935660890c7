"""One entry of a consume queue: where the n-th message of a queue is (docs/spec/store.md 3.1, 3.4).

    physical offset (8) | record size (4) | tags code (8)        entry n at byte 20·n of the queue

The tags code is the Java hash of the TAGS string, sign-extended; in the schedule topic the due
time; with an extension file the address of a unit there (real hashes are above -2^31 - 1).
Unused space at a file's end is zero (size 0 = not written). A queue that begins at a later offset
has fillers before it. A crash may leave any prefix of the entries written since the last sync.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from commitlog.files.system import Buffer
from commitlog.records.java import string_hash

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE: Final = 20
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
PRE_BLANK: Final = ENTRY.pack(0, PRE_BLANK_SIZE, 0)
EXT_OFFSET_MAX: Final = (1 << 63) - (1 << 31) - 1  # else an address could look like a hash

_LONG_MIN: Final = -(1 << 63)
_HASH_MIN: Final = -(1 << 31)

assert ENTRY.size == ENTRY_SIZE


class QueueEntry(NamedTuple):
    """Record at `physical_offset`, of `size` bytes (the message record alone)."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_written(self) -> bool:
        """True for an entry or a filler; the first False ends the written part of a queue.

        Source: docs/spec/store.md 3.3.
        """
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_filler(self) -> bool:
        """True for a filler: it stands before the first message of a queue that begins late."""
        return self.size == PRE_BLANK_SIZE and self.physical_offset == 0


pack_entry = ENTRY.pack


def pack_entries(
    physical_offsets: Iterable[int], sizes: Iterable[int], tags_codes: Iterable[int]
) -> bytes:
    """Encode many entries, one after the other."""
    return b"".join(map(ENTRY.pack, physical_offsets, sizes, tags_codes))


def unpack_entry(data: Buffer, offset: int = 0) -> QueueEntry:
    """The entry at byte `offset`, unchecked; the caller gives 20 bytes."""
    return QueueEntry._make(ENTRY.unpack_from(data, offset))


def unpack_entries(data: Buffer) -> Iterator[QueueEntry]:
    """The entries of a buffer; its size is a multiple of 20 bytes."""
    assert len(data) % ENTRY_SIZE == 0, "whole entries only"
    return map(QueueEntry._make, ENTRY.iter_unpack(data))


def tags_code(tags: str | None) -> int:
    """Code of a TAGS value; 0 for none."""
    return string_hash(tags) if tags else 0


def ext_address(unit_offset: int) -> int:
    """The tags code of an entry with an extension unit at `unit_offset` of its file queue."""
    assert 0 <= unit_offset <= EXT_OFFSET_MAX, "beyond the extension's address space"
    return unit_offset + _LONG_MIN


def is_ext_address(code: int) -> bool:
    """Is this tags code field an address, and no hash or due time?"""
    return code < _HASH_MIN


def ext_offset(address: int) -> int:
    """Offset of the unit that an address names."""
    assert is_ext_address(address), "a tags code is no address"
    return address - _LONG_MIN
