"""Recovery of a plain commit log when a store is opened (docs/spec/store.md 6.5).

    1. choose where to begin: the dispatch mark, else the newest file whose first message is old
       enough, else the first file
    2. walk whole records, checking bodies, to the first thing that is none
    3. zeros, or a torn record with nothing behind it: the end; what is there is cut off physically
       a whole record behind it: damage; it is noted, skipped, and never served

A record that was acknowledged and is broken must not take those behind it away, so with one copy
only (no replicas to ask) damage never ends the log. What a sync never covered and came back out of
order looks the same and is treated the same: such records were not acknowledged, and may stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.records.message_layout import HEAD_SIZE
from commitlog.recovery.plain_walk import PlainWalk, check_record, next_record
from commitlog.segments.segment_log import SegmentLog

_CHUNK = 1 << 20


class DamagedRange(NamedTuple):
    """Bytes [begin, end) of the log that are no whole records, and why."""

    begin: int
    end: int
    reason: str


@dataclass(slots=True)
class RecoveredLog:
    """The result of the walk. `end` is the address behind the last whole record."""

    end: int
    store_timestamp_ms: int = 0
    last_position: int = -1
    damage: list[DamagedRange] = field(default_factory=list)


def choose_start(log: SegmentLog, acceptable: Callable[[int, int], bool]) -> int:
    """Address of the newest file with a first message that is `acceptable(position, store time)`.

    The first file's when none is; files that begin with no whole message are passed over.
    """
    for start in reversed(log.file_starts):
        time_ms = store_time(log, start)
        if time_ms and acceptable(start, time_ms):
            return start
    return log.start


def store_time(log: SegmentLog, position: int) -> int:
    """Store time of the whole record at `position`, 0 when there is none."""
    head = log.pread(HEAD_SIZE, position)
    size = int.from_bytes(head[:4], "big", signed=True)
    if not HEAD_SIZE < size <= log.left(position):
        return 0
    data = log.pread(size, position)
    try:
        check_record(data, 0, position, check_crc=False)
    except StoreDamaged:
        return 0
    at = 68 if data[39] & 0x10 else 56
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def walk_log(
    log: SegmentLog, position: int, *, check_crc: bool = True, trust_zeros: bool = False
) -> RecoveredLog:
    """Walk from `position`, a record's address, to the end of the data; only reads."""
    found = RecoveredLog(position)
    while True:  # ends: each turn goes past one damaged range, and the log is finite
        walk = PlainWalk(log, position, check_crc=check_crc, trust_zeros=trust_zeros)
        record = None
        for record in walk:
            found.last_position = record.position
        if record is not None:
            found.store_timestamp_ms = record.store_timestamp_ms
        found.end = walk.end
        if walk.fault is None:
            return found
        again = next_record(log, walk.end)
        if again is None:
            return found  # torn tail
        found.damage.append(DamagedRange(walk.end, again, walk.fault.reason))
        position = again


def rewrite(log: SegmentLog, begin: int, end: int) -> None:
    """Write [begin, end) once more and sync it (R3).

    After a crash the page cache may hold bytes that never reached the disk, or that look clean
    after a failed sync; nobody may be told that they are stored before they are.
    """
    while begin < end:
        size = min(_CHUNK, log.left(begin), end - begin)
        log.pwrite(log.pread(size, begin), begin)
        begin += size
    log.capture().run()
