"""One entry of a batch consume queue: where an inner batch is (docs/spec/store.md 3.5).

    physical offset (8) | record size (4) | tags code (8) | store time (8)
    | base queue offset (8) | messages (2) | compacted offset -1 (4) | reserved 0 (4)      46 bytes

Entries stand in order without relation to the queue offset; lookups search the base offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from commitlog.files.system import Buffer

ENTRY = struct.Struct(">qiqqqhii")
ENTRY_SIZE: Final = 46
NOT_COMPACTED: Final = -1

assert ENTRY.size == ENTRY_SIZE


class BatchQueueEntry(NamedTuple):
    """`message_count` messages from queue offset `base` on, in one record."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    base: int
    message_count: int
    compacted_offset: int = NOT_COMPACTED
    reserved: int = 0

    @property
    def is_written(self) -> bool:
        """False ends the written part of the queue."""
        return (
            self.physical_offset >= 0
            and self.size > 0
            and self.base >= 0
            and self.message_count > 0
        )


def pack_batch_entry(entry: BatchQueueEntry) -> bytes:
    """The entry's bytes, as they are in the file."""
    return ENTRY.pack(*entry)


def unpack_batch_entry(data: Buffer, offset: int = 0) -> BatchQueueEntry:
    """The entry at byte `offset`, unchecked; the caller gives 46 bytes."""
    return BatchQueueEntry._make(ENTRY.unpack_from(data, offset))


def unpack_batch_entries(data: Buffer) -> Iterator[BatchQueueEntry]:
    """The entries of a buffer; its size is a multiple of 46 bytes."""
    assert len(data) % ENTRY_SIZE == 0, "whole entries only"
    return map(BatchQueueEntry._make, ENTRY.iter_unpack(data))
