"""Walking the entries of a replicated log without opening it for writing.

Source: docs/spec/raft_log.md 1.2-1.7.

    entry │ entry │ … │ blank to the file's end       next file: entry │ …

For tools that read any store in DLedger's layout, Java's or ours. Java fills no checksum: two zeros
are accepted below the upgrade index of a node's folder or, where there is none, until the first
entry that has them; from there on both are verified.

The walk ends at the first thing that is no whole entry. Behind the end of a log Java leaves old
bytes after a truncation, so rubbish there proves nothing; damage is proved by a whole entry of a
later index and no lower term behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.records.checksum import crc32
from commitlog.records.record import (
    BLANK,
    BLANK_SIZE,
    HEADER_SIZE,
    MAGIC_BLANK,
    MAGIC_ENTRY,
    RecordHeader,
    chain,
    unpack_header,
)
from commitlog.segments.segment_log import SegmentLog

CHUNK_SIZE: Final = 1 << 20
_MAGIC_BYTES: Final = MAGIC_ENTRY.to_bytes(4, "big")
_ZEROS = bytes(CHUNK_SIZE)


class LogEntry(NamedTuple):
    """One whole entry: its header and its body."""

    header: RecordHeader
    body: bytes


class EntryWalk:
    """Iterates over whole entries from `position`, the address of an entry, on.

    `filled_from`: entries from this index on have checksums, None when unknown.

    After the iteration: `end`, the address behind the last whole entry, and `fault`, what was
    found there when it is not the log's end.
    """

    def __init__(self, log: SegmentLog, position: int, filled_from: int | None = None) -> None:
        self._log, self.end, self._filled_from = log, position, filled_from
        self.last: RecordHeader | None = None
        self.filled = False
        self.fault: StoreDamaged | None = None

    def __iter__(self) -> Iterator[LogEntry]:
        data, base = b"", self.end
        while self.end < self._log.limit:
            left, offset = self._log.left(self.end), self.end - base
            if len(data) - offset < min(HEADER_SIZE, left):
                data, base, offset = self._read(CHUNK_SIZE), self.end, 0
            if left < BLANK_SIZE:
                return
            magic, size = BLANK.unpack_from(data, offset)
            if magic == MAGIC_BLANK:
                if not self._blank(size, left):
                    return
                self.end += left
                continue
            if size == 0 and magic == 0:
                self._ends()
                return
            if left >= HEADER_SIZE and HEADER_SIZE <= size <= left:
                if len(data) - offset < size:
                    data, base, offset = self._read(max(size, CHUNK_SIZE)), self.end, 0
                header = unpack_header(data, offset)
                body = data[offset + HEADER_SIZE : offset + size]
                reason = self._misfit(header, body)
                if not reason:
                    self.last, self.end = header, self.end + size
                    self.filled = self.filled or bool(header.chain_crc or header.body_crc)
                    yield LogEntry(header, body)
                    continue
                self._ends(reason, sure=self._is_next(header) and header.magic == MAGIC_ENTRY)
                return
            self._ends(f"magic {magic} and size {size} begin no entry")
            return

    def _read(self, size: int) -> bytes:
        return self._log.pread(min(size, self._log.left(self.end)), self.end)

    def _blank(self, size: int, left: int) -> bool:
        if size != left:
            self._ends(f"a blank of {size} bytes where {left} are left")
            return False
        at, rest = self.end + BLANK_SIZE, left - BLANK_SIZE
        while rest:
            step = min(rest, CHUNK_SIZE)
            if self._log.pread(step, at) != _ZEROS[:step]:
                self._fail("the padding at the file's end is not zero")
                return False
            at, rest = at + step, rest - step
        return True

    def _is_next(self, header: RecordHeader) -> bool:
        """Does the header claim this very place? Then it is the next entry, and broken."""
        following = header.sequence == 0 if self.last is None else self._follows(header)
        return header.position == self.end and following

    def _follows(self, header: RecordHeader) -> bool:
        assert self.last is not None
        return header.sequence == self.last.sequence + 1 and header.epoch >= self.last.epoch

    def _misfit(self, header: RecordHeader, body: bytes) -> str:
        """Why the entry cannot be the next one; "" when it is."""
        if header.magic != MAGIC_ENTRY:
            return f"magic {header.magic} is none of DLedger 0.3 (0.4 writes 2 and 3)"
        if header.position != self.end or header.size != HEADER_SIZE + header.body_size:
            return f"the header says position {header.position}, body {header.body_size}"
        if header.channel:
            return f"the header says channel {header.channel}, which is always 0"
        if self.last is None and header.position == 0 and header.sequence != 0:
            return f"the log begins with index {header.sequence}"
        if self.last is not None and not self._follows(header):
            return (
                f"index {header.sequence} of term {header.epoch} follows index "
                f"{self.last.sequence} of term {self.last.epoch}"
            )
        if not header.chain_crc and not header.body_crc and not self._must_be_filled(header):
            return ""
        if crc32(body) != header.body_crc:
            return f"the body's CRC is not {header.body_crc:08x}"
        if self.last is None and header.sequence > 0:
            return ""  # the entry before it was deleted; its value is the anchor
        previous = self.last.chain_crc if self.last is not None else 0
        head = self._log.pread(36, self.end)
        if chain(previous, head, header.body_crc) != header.chain_crc:
            return f"the chain's CRC is not {header.chain_crc:08x}"
        return ""

    def _must_be_filled(self, header: RecordHeader) -> bool:
        if self._filled_from is None:
            return self.filled
        return header.sequence >= self._filled_from

    def _ends(self, reason: str = "zeros where an entry was", *, sure: bool = False) -> None:
        """The end of the log, unless the entry is `sure` to be one or a later one follows."""
        again = self.next_entry()
        if again is not None:
            self._fail(f"{reason}; the next whole entry is at {again}")
        elif sure:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        index = self.last.sequence + 1 if self.last is not None else 0
        self.fault = StoreDamaged(
            f"entry {index}: {reason}", path=str(self._log.path_of(self.end)), position=self.end
        )

    def next_entry(self) -> int | None:
        """Address of the next whole entry of a later index and no lower term, None if none."""
        at = self.end + 1
        while at < self._log.limit:
            size = min(CHUNK_SIZE, self._log.left(at))
            data = self._log.pread(size, at)
            found = -1 if data == _ZEROS[:size] else data.find(_MAGIC_BYTES)
            while found >= 0:
                if self._is_later(at + found):
                    return at + found
                found = data.find(_MAGIC_BYTES, found + 1)
            at += max(size - 3, 1) if size < self._log.left(at) else size
        return None

    def _is_later(self, start: int) -> bool:
        left = self._log.left(start)
        if left < HEADER_SIZE:
            return False
        header = unpack_header(self._log.pread(HEADER_SIZE, start))
        if (
            header.position != start
            or header.size != HEADER_SIZE + header.body_size
            or not HEADER_SIZE <= header.size <= left
        ):
            return False
        if self.last is not None and (
            header.sequence <= self.last.sequence + 1 or header.epoch < self.last.epoch
        ):
            return False
        if header.body_crc or header.chain_crc:
            body = self._log.pread(header.body_size, start + HEADER_SIZE)
            return crc32(body) == header.body_crc
        return True
