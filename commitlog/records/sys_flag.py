"""Bits of the sysFlag field of a message record (docs/spec/store.md 1.2)."""

from __future__ import annotations

from typing import Final

COMPRESSED: Final = 0x1  # body is compressed, by the client
MULTI_TAGS: Final = 0x2  # no effect on the tags code
TRANSACTION_MASK: Final = 0xC
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
HOSTS_V6: Final = 0x30
NEEDS_UNWRAP: Final = 0x40  # the client must unwrap an inner batch
INNER_BATCH: Final = 0x80  # one record, many messages
COMPRESSION_MASK: Final = 0x700
COMPRESSION_ZLIB_OLD: Final = 0x0
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300


def transaction_type(flags: int) -> int:
    """One of the four TRANSACTION_ values."""
    return flags & TRANSACTION_MASK


def goes_to_queue(flags: int) -> bool:
    """Does a record of this kind get a consume queue entry? (docs/spec/store.md 3.6)"""
    return flags & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)


def goes_to_index(flags: int) -> bool:
    """Does a record of this kind get index entries? (docs/spec/store.md 3.6)"""
    return flags & TRANSACTION_MASK != TRANSACTION_ROLLBACK
