"""Which state, and bytes of it: values that the files and the messages of a state share. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from commitlog.files.system import Buffer
from commitlog.records.checksum import crc32
from dledger.log.log_start import LogStart

#: Of one state. A broker's takes a few MB, an embedded machine's may be large; bounds a hostile
#: peer.
STATE_BYTES_MAX = 4 << 30


class Snapshot(NamedTuple):
    """Which state: that of the log up to entry `index`, `size` bytes with this checksum."""

    term: int
    index: int  # type: ignore[assignment]  # hides tuple.index, as in EntryId
    chain_crc: int
    crc: int
    size: int


class Part(NamedTuple):
    """Bytes of a snapshot from `offset` on."""

    snapshot: Snapshot
    offset: int
    data: bytes


def snapshot_of(start: LogStart, parts: Sequence[Buffer]) -> Snapshot:
    """Anchor of `start`, with size and crc32 of the state that entries up to it led to."""
    crc = 0
    for part in parts:
        crc = crc32(part, crc)
    return Snapshot(start.term, start.index, start.chain_crc, crc, sum(map(len, parts)))


def is_possible(snapshot: Snapshot, data: Buffer, offset: int) -> bool:
    """Could a peer mean this? Asked before anything is kept."""
    return 0 <= snapshot.size <= STATE_BYTES_MAX and 0 <= offset <= snapshot.size - len(data)
