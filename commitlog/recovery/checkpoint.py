"""The checkpoint file: how far a plain store had got when it was last sure.

Source: docs/spec/store.md 5.1.

      0  8  store time of the last append known to be flushed        physicMsgTimestamp
      8  8  store time of the last dispatched message                logicsMsgTimestamp
     16  8  end time of the last full, flushed index file            indexMsgTimestamp
     24  8  masterFlushedOffset (since 5.0.0)
     32  8  confirmPhyOffset (since 5.1.1)
     40     zeros up to 4096 bytes

It is overwritten in place within one page; a crash leaves the old or the new longs. It only says
where recovery may begin to look, so an old one costs time and nothing else.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer

FILE_SIZE: Final = 4096
REPLAY_MARGIN_MS: Final = 3000
_LONGS = struct.Struct(">5q")


class Checkpoint(NamedTuple):
    """Times in ms, offsets in bytes; all 0 in a new store."""

    physical_timestamp_ms: int = 0
    logical_timestamp_ms: int = 0
    index_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0

    @property
    def replay_bound_ms(self) -> int:
        """Everything stored before this time needs no replay after an unclean exit."""
        oldest = min(self.physical_timestamp_ms, self.logical_timestamp_ms)
        return max(oldest - REPLAY_MARGIN_MS, 0)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The whole file, 4096 bytes."""
    return _LONGS.pack(*checkpoint).ljust(FILE_SIZE, b"\0")


def decode_checkpoint(data: Buffer) -> Checkpoint:
    """From the whole file or at least its first 40 bytes. Raises StoreDamaged when shorter."""
    if len(data) < _LONGS.size:
        raise StoreDamaged(f"a checkpoint has {FILE_SIZE} bytes, here are {len(data)}", position=0)
    return Checkpoint._make(_LONGS.unpack_from(data))
