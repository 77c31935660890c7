"""The head of a state's file: read and proven in one way by all that look at states.

off size
  0   4  magic      "DLSS"
  4   4  version    1
  8   8  term       of the last entry that the state holds (R15)
 16   8  index      of that entry
 24   4  chain_crc  of that entry
 28   4  crc        CRC-32 of the whole state
 32   8  size       of the whole state
 40   8  offset     of the bytes below in it
 48   4  head_crc   CRC-32 of bytes 0-47 and of the bytes below
 52   n  bytes of the state
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from commitlog.files.system import File
from commitlog.records.checksum import crc32, crc32_joined
from dledger.snapshots.pace import AT_ONCE, Pace
from dledger.snapshots.snapshot import Snapshot

MAGIC, VERSION = b"DLSS", 1
_HEAD = struct.Struct(">4sIqqIIqq")
_CRC = struct.Struct(">I")
DATA_AT = _HEAD.size + _CRC.size
assert DATA_AT == 52
_PIECE = 1 << 20  # bytes that are read at once to prove a state
#: Rest behind a piece that is read, in times of how long it took, where there is a pace.
_REST_RATIO = 3.0


class FileHead(NamedTuple):
    """The head of a whole state or of a part, which begins at `offset` of it.

    `file_crc`: that of the head before it and of all bytes behind.
    """

    version: int
    snapshot: Snapshot
    offset: int
    file_crc: int

    def is_of(self, size: int, crc: int) -> bool:
        """Is the head right, as of this version, in front of so many bytes with this CRC-32?"""
        begin = _HEAD.pack(MAGIC, VERSION, *self.snapshot, self.offset)
        return self.file_crc == crc32_joined(crc32(begin), crc, size)

    def is_whole(self, file_size: int) -> bool:
        """Does a file of this size and version hold a whole state, by its head alone?"""
        wanted = VERSION, 0, DATA_AT + self.snapshot.size
        return (self.version, self.offset, file_size) == wanted


def packed(snapshot: Snapshot, offset: int, size: int, crc: int) -> bytes:
    """The head in front of `size` bytes of a state with this CRC-32."""
    begin = _HEAD.pack(MAGIC, VERSION, *snapshot, offset)
    return begin + _CRC.pack(crc32_joined(crc32(begin), crc, size))


def read_head(file: File) -> FileHead | None:
    """The head, unproven and of any version; None: it is no state's, or half of one. OSError."""
    head = file.pread(DATA_AT, 0)
    if len(head) < DATA_AT:
        return None
    magic, version, *fields, offset = _HEAD.unpack_from(head)
    (file_crc,) = _CRC.unpack_from(head, _HEAD.size)
    return FileHead(version, Snapshot(*fields), offset, file_crc) if magic == MAGIC else None


def is_right(file: File, head: FileHead, pace: Pace = AT_ONCE) -> bool:
    """Do the bytes behind it have its checksum, and all of a state that of the state?

    They are read in pieces, none of which is kept, with rests if `pace` has any. Raises OSError.
    """
    size = crc = 0
    begun = pace.now()
    while data := file.pread(_PIECE, DATA_AT + size):
        size, crc = size + len(data), crc32(data, crc)
        pace.before(0, _REST_RATIO * (pace.now() - begun))
        begun = pace.now()
    whole = head.offset == 0 and size == head.snapshot.size
    return head.is_of(size, crc) and (not whole or crc == head.snapshot.crc)
