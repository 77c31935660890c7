"""Walking the records of a plain commit log, and finding them again behind damage.

Source: docs/spec/store.md 1.5.

    record │ record │ … │ blank to the file's end        next file: record │ …

A walk ends at the first thing that is no whole record: zeros (the end of the data) or damage. The
two are told apart by what follows: behind damage stands a record again that knows its own
position. Reads are `pread`s of a MiB, so that a failing disk is an OSError (R12).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.records.checksum import crc32
from commitlog.records.message_fast import scan_record
from commitlog.records.message_layout import (
    BLANK,
    BLANK_SIZE,
    HEAD_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    RECORD_SIZE_MIN,
    store_timestamp_at,
)
from commitlog.segments.segment_log import SegmentLog

CHUNK_SIZE: Final = 1 << 20
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_MAGIC_BYTES: Final = bytes.fromhex("daa320")
_BODY_SIZE_AT: Final = 84  # with two IPv4 hosts
_ZEROS = bytes(CHUNK_SIZE)


class PlainRecord(NamedTuple):
    """One whole record, at `offset` of `data`, at `position` of the log."""

    position: int
    size: int
    data: bytes
    offset: int

    @property
    def store_timestamp_ms(self) -> int:
        """Store time of the record, ms since 1970; read from its bytes."""
        sys_flag = int.from_bytes(self.data[self.offset + 36 : self.offset + 40], "big")
        at = self.offset + store_timestamp_at(sys_flag)
        return int.from_bytes(self.data[at : at + 8], "big", signed=True)


def check_record(data: bytes, offset: int, position: int, *, check_crc: bool = True) -> int:
    """Size of the record at `offset`, when it is whole and knows its `position`.

    Raises StoreDamaged: fields that do not add up, another position, a body that does not match
    its CRC.
    """
    try:
        record = scan_record(data, offset)
    except StoreDamaged as error:
        raise StoreDamaged(error.reason, position=position) from None
    if record.physical_offset != position:
        raise StoreDamaged(
            f"the record says that it is at {record.physical_offset}", position=position
        )
    if check_crc:
        stored = int.from_bytes(data[offset + 8 : offset + 12], "big")
        at = offset + _BODY_SIZE_AT
        at += 12 * ((record.sys_flag >> 4 & 1) + (record.sys_flag >> 5 & 1))
        body_size = int.from_bytes(data[at : at + 4], "big")
        found = crc32(memoryview(data)[at + 4 : at + 4 + body_size]) & 0x7FFFFFFF
        if found != stored and body_size:
            raise StoreDamaged(
                f"the body's CRC is {found}, the record says {stored}", position=position
            )
    return record.size


class PlainWalk:
    """Iterates over whole records from `position` on.

    After the iteration: `end`, the address behind the last whole record (and blank), and `fault`,
    what was found there when it is not simply zeros. Behind zeros another record is looked for,
    to the end of the files, unless they are known to be the end (`trust_zeros`).
    """

    def __init__(
        self,
        log: SegmentLog,
        position: int,
        *,
        limit: int | None = None,
        check_crc: bool = True,
        trust_zeros: bool = False,
    ) -> None:
        self._log, self._check_crc, self._trust_zeros = log, check_crc, trust_zeros
        self._limit = log.limit if limit is None else min(limit, log.limit)
        self.end = position
        self.fault: StoreDamaged | None = None

    def __iter__(self) -> Iterator[PlainRecord]:
        data, base = b"", self.end
        while self.end < self._limit:
            offset = self.end - base
            left = min(self._log.left(self.end), self._limit - self.end)
            if len(data) - offset < min(HEAD_SIZE, left):
                data, base = self._log.pread(min(CHUNK_SIZE, left), self.end), self.end
                offset = 0
            if left < BLANK_SIZE:
                return
            size, magic = BLANK.unpack_from(data, offset)
            if magic == MAGIC_BLANK:
                if size != self._log.left(self.end):
                    self._fail(f"a blank of {size} bytes where {self._log.left(self.end)} are left")
                    return
                self.end += size
                continue
            if size == 0 and magic == 0:
                self._check_zeros()
                return
            if magic not in _MAGICS or not RECORD_SIZE_MIN <= size <= left:
                self._fail(f"size {size} and magic {magic & 0xFFFFFFFF:08x} begin no record")
                return
            if len(data) - offset < size:
                data, base = self._log.pread(max(size, min(CHUNK_SIZE, left)), self.end), self.end
                offset = 0
            try:
                check_record(data, offset, self.end, check_crc=self._check_crc)
            except StoreDamaged as error:
                self._fail(error.reason)
                return
            self.end += size
            yield PlainRecord(self.end - size, size, data, offset)

    def _fail(self, reason: str) -> None:
        self.fault = StoreDamaged(reason, path=str(self._log.path_of(self.end)), position=self.end)

    def _check_zeros(self) -> None:
        """Fail when a whole record follows zeros: they are a damaged page, not the log's end."""
        if self._trust_zeros:
            return
        again = next_record(self._log, self.end, self._limit)
        if again is not None:
            self._fail(f"zeros where a record was; the next whole record is at {again}")


def next_record(log: SegmentLog, position: int, limit: int | None = None) -> int | None:
    """Address of the first whole record (with a sound body) behind `position`, None if none."""
    end = log.limit if limit is None else min(limit, log.limit)
    at = position + 1
    while at < end:
        size = min(CHUNK_SIZE, log.left(at), end - at)
        data = log.pread(size, at)
        if data == _ZEROS[:size]:
            at += size
            continue
        found = data.find(_MAGIC_BYTES)
        while found >= 0:
            start = at + found - 4
            if start > position and _is_record(log, start, end):
                return start
            found = data.find(_MAGIC_BYTES, found + 1)
        # Step so that a magic across two chunks is seen once.
        at += max(size - 3, 1) if size < log.left(at) else size
    return None


def _is_record(log: SegmentLog, start: int, end: int) -> bool:
    left = min(log.left(start), end - start)
    head = log.pread(min(HEAD_SIZE, left), start)
    if len(head) < HEAD_SIZE:
        return False
    size, magic = BLANK.unpack_from(head)
    own = int.from_bytes(head[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
    if magic not in _MAGICS or not RECORD_SIZE_MIN <= size <= left or own != start:
        return False
    try:
        check_record(log.pread(size, start), 0, start)
    except StoreDamaged:
        return False
    return True
