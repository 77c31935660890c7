"""Plain CommitLog: message records back to back in fixed-size files (docs/spec/store.md 1.5-1.7).

    commitlog/<20 digits>     record │ record │ … │ blank       blank: bytes left (4) | CBD43194

A unit (one record, or all records of a client batch) is placed only if it and a blank's 8 bytes
fit into the file; otherwise the blank is written and the unit opens the next file. One writer: the
store holds its append lock around `append`.

What a crash may leave: records beyond the last sync in any state, a zero-filled file more.
"""

from __future__ import annotations

from collections.abc import Sequence

from commitlog.errors import MessageTooLarge, StoreDamaged, StoreFailed
from commitlog.records.message_layout import BLANK_SIZE, RECORD_SIZE_MIN, encode_blank, patch_record
from commitlog.records.record_crc import seal_record
from commitlog.recovery.plain_walk import check_record
from commitlog.segments.segment_log import SegmentLog
from commitlog.segments.segment_sync import SegmentSync


class CommitLog:
    """Append and read by position.

    Args:
        log: the files.
        end: address behind the last record, as recovery found it.
        store_timestamp_ms: store time of the last record, 0 when there is none.
        record_crc: seal each record with the checksum property (docs/spec/store.md 1.4); its space
            is in the records.

    Invariant: log.start ≤ end ≤ log.limit; everything at and behind `end` is zero.
    """

    def __init__(
        self, log: SegmentLog, end: int, store_timestamp_ms: int, *, record_crc: bool = False
    ) -> None:
        assert log.start <= end
        self.log, self.end = log, end
        self.store_timestamp_ms = store_timestamp_ms
        self._record_crc = record_crc
        self.failed: StoreFailed | None = None

    @property
    def start(self) -> int:
        """Lowest position that can be read."""
        return self.log.start

    def append(
        self, records: Sequence[bytearray], queue_offsets: Sequence[int], now_ms: int
    ) -> list[int]:
        """Write `records` as one unit; return the position of each.

        Fills queue offset, position and store time into each record. The store time is `now_ms`,
        but never before the last one in the log (R24). Raises MessageTooLarge when the unit does
        not fit a file, StoreFailed when the disk refuses (then the log takes no more writes).
        """
        if self.failed is not None:
            raise self.failed
        total = sum(map(len, records))
        if total + BLANK_SIZE > self.log.file_size:
            raise MessageTooLarge("record", total, self.log.file_size - BLANK_SIZE)
        store_ms = max(now_ms, self.store_timestamp_ms)
        self._allocate_blocks(total)
        try:
            positions: list[int] = []
            at = self.end
            for record, queue_offset in zip(records, queue_offsets, strict=True):
                patch_record(record, queue_offset, at, store_ms)
                if self._record_crc:
                    seal_record(record)
                positions.append(at)
                at += len(record)
            self.log.pwritev(records, self.end)
        except OSError as error:
            raise self.fail(error) from error
        self.end, self.store_timestamp_ms = at, store_ms
        return positions

    def _allocate_blocks(self, size: int) -> None:
        if self.end < self.log.limit:
            left = self.log.left(self.end)
            if size + BLANK_SIZE <= left:
                return
            try:
                self.log.pwrite(encode_blank(left), self.end)
            except OSError as error:
                raise self.fail(error) from error
            self.end += left
        try:
            self.log.ensure(self.end)
        except OSError as error:
            # Nothing is half done: a file is made whole or not at all. The next put may try again.
            raise StoreFailed(
                f"no file for more messages could be made in {self.log.folder} ({error}); "
                "nothing was written, free space and send again"
            ) from error

    def fail(self, error: OSError) -> StoreFailed:
        """Remember that the disk refused; no write is taken from now on (D5)."""
        if self.failed is None:
            self.failed = StoreFailed(
                f"the commit log in {self.log.folder} takes no more messages because the disk "
                f"refused ({error}); free or repair the disk, then open the store again"
            )
        return self.failed

    def record(self, position: int, size: int = 0, *, check_crc: bool = True) -> bytes:
        """The record that begins at `position`, checked.

        `size` is what a queue entry says (0: unknown). Raises IndexError outside the log,
        StoreDamaged when the bytes there are no whole record that knows this position.
        """
        if not self.start <= position < self.end:
            raise IndexError(f"position {position} is outside {self.start}..{self.end}")
        left = min(self.log.left(position), self.end - position)
        data = self.log.pread(min(size or 4096, left), position)
        stated = int.from_bytes(data[:4], "big", signed=True)
        path = str(self.log.path_of(position))
        if not RECORD_SIZE_MIN <= stated <= left:
            raise StoreDamaged(
                f"a record of {stated} bytes is impossible", path=path, position=position
            )
        if len(data) < stated:
            data += self.log.pread(stated - len(data), position + len(data))
        try:
            check_record(data, 0, position, check_crc=check_crc)
        except StoreDamaged as error:
            raise StoreDamaged(error.reason, path=path, position=position) from None
        return data[:stated]

    def capture(self) -> tuple[int, SegmentSync]:
        """The end now, and the disk work that makes everything before it durable."""
        return self.end, self.log.capture()

    def close(self) -> None:
        """Close the files for good."""
        self.log.close()
