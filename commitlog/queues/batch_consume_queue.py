"""BatchConsumeQueue: the positions of one queue's inner batches in the log, 46 bytes each.

Source: docs/spec/store.md 3.5.

    batchconsumequeue/<topic>/<queue id>/<20 digits>      entries are drawn in batch_queue_entry.py

Topics with attribute `queue.type=BatchCQ` have such queues. Entry k is the k-th batch, and a batch
holds several messages, so a queue offset does not give the entry's place: lookups search the base
offsets. Like a ConsumeQueue it is made from the log, and recovers from a crash in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from commitlog.queues.batch_queue_entry import ENTRY_SIZE, BatchQueueEntry, unpack_batch_entries
from commitlog.queues.batch_queue_entry import pack_batch_entry as pack
from commitlog.queues.queue_files import QueueFiles


class BatchConsumeQueue(QueueFiles):
    """One queue of inner batches; offsets count messages, not batches.

    Arguments as for `QueueFiles`; `file_size` is a multiple of 46.
    """

    KIND: ClassVar = "batchconsumequeue"
    ENTRY_SIZE: ClassVar = ENTRY_SIZE
    __slots__ = ("_end", "_first", "_last_base", "_last_position")

    def _reset(self) -> None:
        self._first = self._end = self._log.start // ENTRY_SIZE
        self._last_position = self._last_base = -1
        self.min_offset = self.max_offset = self.end_position = 0

    def recover(self) -> None:
        """Find the end by reading from the third-last file on, as RocketMQ does."""
        starts = self._log.file_starts
        self._reset()
        first = starts[-3] if len(starts) >= 3 else self._log.start
        end = first // ENTRY_SIZE
        last: BatchQueueEntry | None = None
        for start in [start for start in starts if start >= first]:
            for entry in unpack_batch_entries(self._log.pread(self._log.file_size, start)):
                if not entry.is_written:
                    break
                last, end = entry, end + 1
            if end * ENTRY_SIZE < start + self._log.file_size:
                break
        self._end = end
        self._set_bounds(last)

    def _set_bounds(self, last: BatchQueueEntry | None) -> None:
        if last is None:
            self.min_offset = self.max_offset = 0
            return
        self._last_position, self._last_base = last.physical_offset, last.base
        self.max_offset = last.base + last.message_count
        self.end_position = last.physical_offset + last.size
        self.min_offset = self._entry(self._first).base

    @property
    def entry_end(self) -> int:
        """Number of the entry that comes next."""
        return self._end

    def keep(self, count: int) -> bool:
        """Keep exactly the entries with numbers below `count` (see `ConsumeQueue.keep`)."""
        start = self._log.start // ENTRY_SIZE
        if not start <= count <= self._log.limit // ENTRY_SIZE:
            return False
        if count == start:
            self.remove()
            return True
        last = self._entry(count - 1)
        if not last.is_written:
            return False
        self._log.forget(count * ENTRY_SIZE)
        self._changed(self)
        self._reset()
        self._end = count
        self._set_bounds(last)
        return True

    def cut(self, position: int) -> None:
        """Remove entries of records that begin at or above `position`. Call `recover` before."""
        start = self._log.start // ENTRY_SIZE
        end = self._search(start, self._end, lambda entry: entry.physical_offset >= position)
        if end < self._end or end == start:
            kept = self.keep(end)
            assert kept, "entries below the end are whole"

    def _entry(self, number: int) -> BatchQueueEntry:
        (entry,) = unpack_batch_entries(self._log.pread(ENTRY_SIZE, number * ENTRY_SIZE))
        return entry

    def _search(self, low: int, high: int, beyond: Callable[[BatchQueueEntry], bool]) -> int:
        while low < high:
            middle = (low + high) // 2
            if beyond(self._entry(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def append(self, entry: BatchQueueEntry) -> bool:
        """Add one inner batch; False when it, or a later one, is there already. Raises OSError."""
        assert entry.is_written
        if entry.physical_offset <= self._last_position:
            return False
        at = self._end * ENTRY_SIZE
        self._changed(self)
        self._log.ensure(at + ENTRY_SIZE - 1)
        self._log.pwrite(pack(entry), at)
        self._end += 1
        self._set_bounds(entry)
        return True

    def read(self, offset: int, count: int) -> list[BatchQueueEntry]:
        """Up to `count` batches; the first one holds queue offset `offset`."""
        if not self.min_offset <= offset < self.max_offset:
            return []
        first = self._search(self._first, self._end, lambda entry: entry.base > offset) - 1
        count = min(count, self._end - first)
        return list(unpack_batch_entries(self._log.pread(count * ENTRY_SIZE, first * ENTRY_SIZE)))

    def offset_by_time(self, time_ms: int, *, upper: bool = False) -> int:
        """Base offset of the first batch stored at or after `time_ms`, else `max_offset`.

        With `upper`: base offset of the last batch stored at or before `time_ms`, else
        `min_offset`. The entries hold the store time, so the log is not read.
        """
        number = self._search(
            self._first,
            self._end,
            lambda entry: entry.store_timestamp_ms > time_ms - (not upper),
        )
        if upper:
            return self._entry(number - 1).base if number > self._first else self.min_offset
        return self._entry(number).base if number < self._end else self.max_offset

    def correct_min_offset(self, position_min: int) -> None:
        """Move `min_offset` to the first batch that points at or above `position_min`."""
        self._first = self._search(
            self._log.start // ENTRY_SIZE,
            self._end,
            lambda entry: entry.physical_offset >= position_min,
        )
        self.min_offset = (
            self._entry(self._first).base if self._first < self._end else self.max_offset
        )

    def drop_before(self, position_min: int) -> int:
        """Remove files with all entries below address `position_min`; return how many."""
        keep = self._log.start
        for start in self._log.file_starts[:-1]:
            last = self._entry((start + self._log.file_size) // ENTRY_SIZE - 1)
            if last.physical_offset >= position_min:
                break
            keep = start + self._log.file_size
        gone = self._log.drop_before(keep)
        self.correct_min_offset(position_min)
        return gone

    def forget(self) -> None:
        """Remove every entry, and with them every file."""
        self.remove()

    def remove(self) -> None:
        """Remove every file."""
        self._changed(self)
        self._log.drop_after(0)
        self._log.start_at(0)
        self._reset()
