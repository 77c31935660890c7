"""ConsumeQueue: where the messages of one queue are, 20 bytes each (docs/spec/store.md 3.1-3.3).

    consumequeue/<topic>/<queue id>/<20 digits>       entry n is at byte n·20 of the address space
    the layout of an entry is in queue_entry.py; fillers stand before the first entry of a queue
    that does not begin at offset 0

Queues are derived from committed bytes only, so they can be deleted and rebuilt. One `pwrite`
writes the entries of a batch. The data ends before the first entry of size 0.

What a crash may leave: entries behind the last sync lost or torn in any pattern. `keep` brings the
queue back to the entries that the dispatch mark vouches for; the others are dispatched again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from commitlog.queues.queue_entry import ENTRY, ENTRY_SIZE, PRE_BLANK, PRE_BLANK_SIZE, QueueEntry
from commitlog.queues.queue_files import QueueFiles

TAIL_READ = 4096  # bytes read from the last kept entry on; a sparse file rarely has more behind it


class ConsumeQueue(QueueFiles):
    """One queue; arguments as for `QueueFiles`, `file_size` is a multiple of 20.

    Invariant: min_offset ≤ max_offset; entries below max_offset have ascending positions, all of
    them ending at or below `end_position`.
    """

    KIND: ClassVar = "consumequeue"
    ENTRY_SIZE: ClassVar = ENTRY_SIZE
    __slots__ = ("_first_position", "run", "run_end")

    def _reset(self) -> None:
        self.min_offset = self.max_offset = self._log.start // ENTRY_SIZE
        self.end_position = 0
        self._first_position = -1  # of the first file's first entry; -1: unknown
        self.run: list[bytes] = []  # used by the dispatcher: encoded entries of its next batch
        self.run_end = 0

    # ---- finding the end ------------------------------------------------------------------------

    def recover(self) -> None:
        """Find the end by reading from the third-last file on, as RocketMQ does.

        Source: docs/spec/store.md 3.3.
        """
        starts = self._log.file_starts
        first = max(starts[-3], 0) if len(starts) >= 3 else self._log.start
        count = 0
        self.end_position = 0
        for start in [start for start in starts if start >= first]:
            data = self._log.pread(self._log.file_size, start)
            for position, size, _ in ENTRY.iter_unpack(data):
                if position < 0 or size <= 0:
                    break
                count += 1
                if size != PRE_BLANK_SIZE:
                    self.end_position = position + size
            if count * ENTRY_SIZE + first < start + self._log.file_size:
                break
        self.min_offset = self._log.start // ENTRY_SIZE
        self.max_offset = first // ENTRY_SIZE + count

    def keep(self, count: int) -> bool:
        """Keep exactly the synced entries, those below offset `count`; zero the entries behind.

        False when they cannot all be here: then the queue must be built anew. The zeros are not
        synced: until they are, the mark on disk vouches for no more than these entries.
        """
        start = self._log.start // ENTRY_SIZE
        if not start <= count <= self._log.limit // ENTRY_SIZE:
            return False
        if count == start:
            self.forget()
            return True
        at, end = (count - 1) * ENTRY_SIZE, count * ENTRY_SIZE
        data = self._log.pread(min(TAIL_READ, self._log.left(at)), at)
        last = QueueEntry._make(ENTRY.unpack_from(data))
        if not last.is_written or last.is_filler:
            return False
        blank = len(data) - ENTRY_SIZE
        self._log.forget(end if data[ENTRY_SIZE:] != bytes(blank) else end + blank)
        if self._log.dirty:
            self._changed(self)
        first = last if count - 1 == start else self._entry(start)
        self._first_position = -1 if first.is_filler else first.physical_offset
        self.min_offset, self.max_offset = start, count
        self.end_position = last.physical_offset + last.size
        return True

    def forget(self) -> None:
        """Drop all entries; a queue that begins at 0 keeps its first file for later entries."""
        if self._log.start or not self._log.file_starts:
            self.remove()
            return
        self._log.forget(0)
        self._changed(self)
        self.min_offset = self.max_offset = self.end_position = 0
        self._first_position = -1

    def cut(self, position: int) -> None:
        """Drop the entries of messages at or above `position`; `recover` or `keep` ran before."""
        start = self._log.start // ENTRY_SIZE
        end = self._first_offset(start, self.max_offset, lambda at, _: at >= position)
        if end == self.max_offset and end > start:
            return
        if end == start or self._entry(end - 1).is_filler:
            self.remove()
            return
        self._changed(self)
        min_offset = self.min_offset
        kept = self.keep(end)
        assert kept, "entries below the end are whole"
        self.min_offset = min(min_offset, end)

    def _first_offset(self, low: int, high: int, beyond: Callable[[int, int], bool]) -> int:
        """First offset in [low, high) for which `beyond(position, size)`; `high` when none."""
        while low < high:
            middle = (low + high) // 2
            position, size, _ = self._entry(middle)
            if beyond(position, size):
                high = middle
            else:
                low = middle + 1
        return low

    def _entry(self, offset: int) -> QueueEntry:
        return QueueEntry._make(ENTRY.unpack(self._log.pread(ENTRY_SIZE, offset * ENTRY_SIZE)))

    # ---- writing --------------------------------------------------------------------------------

    def append(self, offset: int, position: int, size: int, tags_code: int) -> bool:
        """Add one entry by the rules of docs/spec/store.md 3.2. False when it was there already.

        A gap (an offset above the end) is closed: the entry goes to the end, as in RocketMQ.
        """
        if position + size <= self.end_position:
            return False
        if offset < self.max_offset and offset != 0:
            return False
        if offset > 0 and not self._log.file_starts:
            self._begin_late(offset)
        self.append_run(ENTRY.pack(position, size, tags_code), 1, position + size)
        return True

    def append_run(self, entries: bytes, count: int, end_position: int) -> None:
        """Add `count` encoded entries at the offsets from `max_offset` on, in one write.

        The caller has checked that they belong exactly there. Raises OSError.
        """
        assert len(entries) == count * ENTRY_SIZE
        assert end_position > self.end_position
        self._changed(self)
        at = self.max_offset * ENTRY_SIZE
        if at + len(entries) > self._log.limit:
            if self.max_offset and not self._log.file_starts:
                self._begin_late(self.max_offset)
            self._log.ensure(at + len(entries) - 1)
        self._log.pwrite(entries, at)
        self.max_offset += count
        self.end_position = end_position

    def begin_at(self, offset: int) -> None:
        """Let a queue without entries begin at `offset`: its older messages left the log already.

        Writes nothing: after a restart the offset of the first entry shows the same beginning.
        """
        assert self.max_offset == self.min_offset
        if self._log.file_starts:
            self.remove()
        self.min_offset = self.max_offset = offset

    def _begin_late(self, offset: int) -> None:
        """Make the first file of a queue that begins at `offset`, with fillers before it."""
        at, known = offset * ENTRY_SIZE, self.max_offset
        start = at - at % self._log.file_size
        self._log.start_at(start)
        try:
            self._log.ensure(start)
            self._log.pwrite(PRE_BLANK * ((at - start) // ENTRY_SIZE), start)
        except OSError:
            self.remove()  # a first file without its fillers would be taken for a whole one
            self.min_offset = self.max_offset = known
            raise
        self.min_offset = self.max_offset = offset

    # ---- reading --------------------------------------------------------------------------------

    def read(self, offset: int, count: int) -> list[QueueEntry]:
        """Up to `count` entries from `offset` on; none outside [min_offset, max_offset)."""
        data = self.read_raw(offset, count)
        return [QueueEntry._make(entry) for entry in ENTRY.iter_unpack(data)]

    def read_raw(self, offset: int, count: int) -> bytes:
        """The entries that `read` returns, as the bytes on disk."""
        if offset < self.min_offset:
            return b""
        count = min(count, self.max_offset - offset)
        return self._log.pread(count * ENTRY_SIZE, offset * ENTRY_SIZE) if count > 0 else b""

    def offset_by_time(
        self, time_ms: int, store_time_of: Callable[[int], int], *, upper: bool = False
    ) -> int:
        """Offset of the first message stored at or after `time_ms`, else `max_offset`.

        With `upper`: of the last one stored at or before it, else `min_offset`.
        `store_time_of(position)` reads a message's store timestamp; they never decrease along a
        queue, so this is a binary search.
        """
        if upper:
            first = self._first_offset(
                self.min_offset, self.max_offset, lambda at, _: store_time_of(at) > time_ms
            )
            return max(first - 1, self.min_offset)
        return self._first_offset(
            self.min_offset, self.max_offset, lambda at, _: store_time_of(at) >= time_ms
        )

    # ---- retention and durability ---------------------------------------------------------------

    def correct_min_offset(self, position_min: int) -> None:
        """Move `min_offset` to the first entry that points at or above `position_min`."""
        low = self._log.start // ENTRY_SIZE
        if self.min_offset == low and self._first_position >= position_min:
            return  # as after nearly every start: no file is read
        self.min_offset = self._first_offset(
            max(low, min(self.min_offset, self.max_offset)),
            self.max_offset,
            lambda at, size: at >= position_min and size != PRE_BLANK_SIZE,
        )

    def drop_before(self, position_min: int) -> int:
        """Remove files with all entries below address `position_min`; return how many."""
        keep = self._log.start
        for start in self._log.file_starts[:-1]:
            last = (start + self._log.file_size) // ENTRY_SIZE - 1
            if self._entry(last).physical_offset >= position_min:
                break
            keep = start + self._log.file_size
        gone = self._log.drop_before(keep)
        if gone:
            self._first_position = -1
        self.correct_min_offset(position_min)
        return gone

    @property
    def entry_end(self) -> int:
        """Offset of the entry that comes next."""
        return self.max_offset

    def remove(self) -> None:
        """Remove every file; the queue is empty and begins at 0 again."""
        self._changed(self)
        self._log.drop_after(0)
        self._log.start_at(0)
        self._first_position = -1
        self.min_offset = self.max_offset = self.end_position = 0
