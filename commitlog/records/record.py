"""Header of one record of the replicated log (DLedger 0.3 layout).

Source: docs/spec/raft_log.md 1.2-1.4.

    off size field
      0   4  magic      1 = entry, -1 = blank to the end of the file
      4   4  size       whole record: 48 + body
      8   8  sequence   number of the record, the first is 0      (Raft: index)
     16   8  epoch      when it was made                          (Raft: term)
     24   8  position   byte address of this record's first byte
     32   4  channel    0
     36   4  chain_crc  crc32(previous chain_crc | header bytes 0-35 | body_crc)
     40   4  body_crc   crc32(body), all 32 bits
     44   4  body_size
     48   n  body

    blank: magic -1 (4) | bytes to the end of the file, these 8 included (4) | zeros

A record of size L is placed only if L + 8 bytes are left in the file; otherwise a blank fills the
file and the record opens the next one. All integers are big-endian.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from commitlog.records.checksum import crc32

HEADER_SIZE = 48
BLANK_SIZE = 8
MAGIC_ENTRY = 1
MAGIC_BLANK = -1

HEADER = struct.Struct(">iiqqqiIIi")
CHAINED = struct.Struct(">iiqqqi")  # header bytes 0-35
BLANK = struct.Struct(">ii")
U32 = struct.Struct(">I")

assert HEADER.size == HEADER_SIZE
assert CHAINED.size == 36
assert BLANK.size == BLANK_SIZE


class RecordHeader(NamedTuple):
    """The nine fields, in file order; sizes in bytes."""

    magic: int
    size: int
    sequence: int
    epoch: int
    position: int
    channel: int
    chain_crc: int
    body_crc: int
    body_size: int


def unpack_header(data: bytes | bytearray | memoryview, offset: int = 0) -> RecordHeader:
    """Read the 48 bytes at `offset` as a header, unchecked."""
    return RecordHeader._make(HEADER.unpack_from(data, offset))


def chain(previous_chain_crc: int, head36: bytes | memoryview, body_crc: int) -> int:
    """Running checksum that binds a record to the one before it (docs/spec/raft_log.md 1.3)."""
    return crc32(U32.pack(body_crc), crc32(head36, crc32(U32.pack(previous_chain_crc))))


def record_fits(size: int, left: int) -> bool:
    """May a record of `size` bytes be placed where `left` bytes remain in the file?"""
    return size + BLANK_SIZE <= left
