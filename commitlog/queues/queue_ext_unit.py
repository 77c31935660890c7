"""One unit of a consume queue's extension file: the fields that a message filter reads.

Source: docs/spec/store.md 3.4.

    size (2) | tags code (8) | store time (8) | bitmap length (2) | bitmap

When the next unit does not fit into the file, the writer ends the file with FF FF. A filter works
without this data, only more slowly, so `unpack_ext_unit` returns None for a damaged unit and does
not raise.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from commitlog.files.system import Buffer

_HEAD = struct.Struct(">hqqh")
UNIT_SIZE_MIN: Final = 20
UNIT_SIZE_MAX: Final = 32_767  # the size is a signed short
BITMAP_SIZE_MAX: Final = UNIT_SIZE_MAX - UNIT_SIZE_MIN
FILE_END: Final = b"\xff\xff"
FILE_END_ROOM: Final = 4  # kept free behind every unit

assert _HEAD.size == UNIT_SIZE_MIN


class QueueExtUnit(NamedTuple):
    """Filter data of one message: tags code, store time in ms, and the bitmap of SQL92 groups."""

    tags_code: int
    store_timestamp_ms: int
    bitmap: bytes

    @property
    def size(self) -> int:
        """Bytes of the unit in the file."""
        return UNIT_SIZE_MIN + len(self.bitmap)


def pack_ext_unit(unit: QueueExtUnit) -> bytes:
    """The unit's bytes; its bitmap has at most BITMAP_SIZE_MAX of them."""
    assert len(unit.bitmap) <= BITMAP_SIZE_MAX, "the bitmap does not fit a unit"
    head = _HEAD.pack(unit.size, unit.tags_code, unit.store_timestamp_ms, len(unit.bitmap))
    return head + unit.bitmap


def unpack_ext_unit(data: Buffer, offset: int = 0) -> QueueExtUnit | None:
    """The unit at `offset`; None at the end of the file, and if the bytes are not a unit."""
    if len(data) - offset < UNIT_SIZE_MIN:
        return None
    size, code, store_timestamp_ms, bitmap_size = _HEAD.unpack_from(data, offset)
    if size < UNIT_SIZE_MIN or bitmap_size != size - UNIT_SIZE_MIN or len(data) - offset < size:
        return None
    return QueueExtUnit(
        code, store_timestamp_ms, bytes(data[offset + UNIT_SIZE_MIN : offset + size])
    )


def fits(size: int, left: int) -> bool:
    """May a unit of `size` bytes be placed where `left` bytes remain in the file?"""
    return size <= left - FILE_END_ROOM
