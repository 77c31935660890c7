"""Damage in the log of a running replica: found, kept apart, and good bytes put back.

    scrub          a thread verifies what lies on disk (`scrub.py`)
    quarantine     `FileLog.damage`: ranges of entries
    restore        bytes of the same entries, from our own memory or from a peer, are written and
                   synced by a thread in the place of the damaged ones; slots are made again

Only the same entries are put back: they continue our record before them (id, chain checksum,
position), have the terms that our log has there, and their own checksums lead from one to the next
(Log Matching: the same index and term means the same bytes, committed or not: a group may need just
this replica to commit them). A crash while they are written leaves damage where damage was. What is
truncated meanwhile is not written any more: something else may stand there.
"""

from __future__ import annotations

from threading import Lock

from commitlog.records.checksum import crc32
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import EntryId, Index, Term
from dledger.errors import RangeRejected
from dledger.log.check import Tail, check_records
from dledger.log.damage import Damage
from dledger.log.file_log import FileLog
from dledger.log.port import LogRange, ReceivedRange, VerifiedRange
from dledger.log.runs import runs_between
from dledger.log.slots import SLOT_SIZE
from dledger.repair.scrub import Pieces, Scrub


class Restore:
    """Write verified bytes over damaged ones, and sync them.

    Attributes:
        cancelled: some of the entries are truncated; nothing is written from then on.
    """

    def __init__(self, verified: VerifiedRange, data: memoryview, pieces: Pieces) -> None:
        """`data`: the bytes of `verified` that belong into the `pieces`."""
        self.verified, self._data, self._pieces = verified, data, pieces
        self.cancelled, self._writing = False, Lock()

    def cut_after(self, index: Index) -> None:
        """When this returns, no write above `index` is under way or will be: waits for a copy of
        one range at most, not for a sync."""
        if self.verified.source.last > index:
            with self._writing:
                self.cancelled = True

    def run(self) -> None:
        """Raises OSError."""
        done = 0
        for file, offset, step in self._pieces:
            with self._writing:
                if self.cancelled:
                    return
                file.pwrite(self._data[done : done + step], offset)
            file.datasync()
            done += step


class Scrubber:
    """Looks for damage in one log and undoes it. One task of it at a time.

    Counts since the start: `restored_entries` that were put back, `mended_slots`.
    """

    def __init__(self, log: FileLog) -> None:
        self._log, self._cold = log, log.reader.cold
        #: Since the start: whole passes, what they read, and what was damaged there.
        self.passes = self.read_bytes = self.found = 0
        self.restored_entries = self.mended_slots = 0

    # -- looking --------------------------------------------------------------------------------

    def begin_scrub(self, start: Tail | None, size: int) -> Scrub | None:
        """A scrub of the records behind `start` (None: from the first entry), some `size` bytes.

        None when no flushed record follows it.
        """
        anchor, last = self._cold.anchor, self._log.flushed
        # Also of a pass that had reached just what was deleted meanwhile, or of the log before a
        # state was installed: then its end may lie before the first file.
        if start is None or start.id.index <= anchor.id.index or start.end < anchor.end:
            start = anchor
        if start.id.index >= last:
            return None
        scrub = self._scrub(start, last, size)
        self._log.begin_work(scrub)
        return scrub

    def _scrub(self, start: Tail, last: Index, size: int) -> Scrub:
        self._log.files.slots.settle()
        first, row = start.id.index + 1, self._log.files.slots.row
        return Scrub(
            start,
            last,
            size,
            list(self._log.files.data.pieces(start.end, self._log.pointers.tail.end - start.end)),
            list(row.pieces(first * SLOT_SIZE, (last + 1 - first) * SLOT_SIZE)),
            file_size=self._log.file_size,
            zero_below=self._log.options.zero_below,
        )

    def verify(self, first: Index, last: Index, size: int) -> Scrub:
        """Look at entries `first`..`last`, some `size` bytes of them, now and in this thread."""
        scrub = self._scrub(self.start_before(first), last, size)
        scrub.run()
        if scrub.reason:
            self._cold.when_damaged(Index(scrub.tail.id.index + 1))
        return scrub

    def start_before(self, index: Index) -> Tail:
        """Where a scrub begins that shall see the record `index`."""
        return self._cold.known_before(index)

    def finish_scrub(self, scrub: Scrub) -> Tail | None:
        """Note the damage that a look has found; where to go on, None at the end."""
        self._log.end_work(scrub)
        first, whole = Index(scrub.start.id.index + 1), scrub.tail.id.index
        if scrub.cancelled or first < self._cold.first:
            return None
        if scrub.slots_differ and scrub.packed:
            self._log.flush.replace_slots(first, scrub.packed)
            self.mended_slots += len(scrub.packed) // SLOT_SIZE
        self._log.damage.found_whole(first, whole)
        going_on: Tail | None = scrub.tail
        if scrub.reason:
            going_on = self._note(Index(whole + 1), scrub.reason)
        return None if going_on is None or going_on.id.index >= scrub.last else going_on

    def _note(self, first: Index, reason: str) -> Tail | None:
        """Quarantine from `first` on; the tail of the first record known to be whole behind it."""
        last, step = first, 1
        end = self._log.flushed
        while last < end and not self._stands(last):
            last, step = Index(min(last + step, end)), step * 2
        self._log.damage.add(Damage(first, last, reason))
        header = self._cold.by_slot(last)
        if header is None:
            return None
        tail = EntryId(Term(header.epoch), last)
        return Tail(tail, header.chain_crc, header.position + header.size)

    def _stands(self, index: Index) -> bool:
        """Do slot, header, body and the record behind it say the same of this record?"""
        header = self._cold.by_slot(index)
        if header is None:
            return False
        end = header.position + header.size
        if crc32(self._log.files.data.read(header.position + HEADER_SIZE, header.body_size)) != (
            header.body_crc
        ):
            return False
        if index == self._log.pointers.tail.id.index:
            return header.chain_crc == self._log.pointers.tail.chain_crc
        following = self._cold.by_slot(index + 1)
        if following is None:
            return False
        tail = Tail(EntryId(Term(header.epoch), index), header.chain_crc, end)
        view = memoryview(self._log.files.data.read(end, following.position + following.size - end))
        file_size, zero_below = self._log.file_size, self._log.options.zero_below
        return bool(check_records(view, tail, file_size, zero_below).slots)

    # -- putting back ---------------------------------------------------------------------------

    def own_range(self, damage: Damage, size_max: int) -> LogRange | None:
        """The entries as they were written, while they are in memory."""
        if self._log.reader.cache.find(damage.first) is None:
            return None
        return self._log.read_range(damage.first, damage.last, size_max)

    def begin_restore(self, source: LogRange | ReceivedRange) -> Restore | None:
        """None when our record before the range turns out to be damaged as well.

        Raises RangeRejected when these are not our entries, or are not on disk here.
        """
        at = self._log.pointers
        verified = self._log.check_range(source)
        prev, first = source.prev, Index(source.prev.index + 1)
        if not first <= source.last <= at.flushed.index:
            raise RangeRejected(f"entries {first} to {source.last} are not on disk here")
        if source.runs != runs_between(at.runs, first, source.last):
            raise RangeRejected(f"the terms of entries {first} to {source.last} are others here")
        before = self._cold.anchor
        if prev.index >= self._cold.first:
            header = self._cold.by_slot(prev.index)
            if header is None:
                self._extend_down(first)
                return None
            end = header.position + header.size
            before = Tail(EntryId(Term(header.epoch), prev.index), header.chain_crc, end)
        if before.chain_crc is not None and before.chain_crc != source.prev_chain_crc:
            self._extend_down(first)
            return None
        skip = 0
        if first == self._cold.first:  # a blank before our first file went with another one
            skip = max(0, before.end - source.position)
        if source.position + skip != before.end or verified.end > self._log.pointers.tail.end:
            raise RangeRejected(f"entry {first} is at position {before.end} here")
        pieces = list(self._log.files.data.pieces(before.end, source.size - skip))
        restore = Restore(verified, verified.data[skip:], pieces)
        self._log.begin_work(restore)
        return restore

    def _extend_down(self, first: Index) -> None:
        """Extend the damage down: a peer has another record there, so ours is damaged (R19)."""
        known = self._cold.known_before(Index(first - 1)).id.index
        reason = f"record {first - 1} is not what a peer has"
        self._log.damage.extend_down(first, Index(known + 1), reason)

    def finish_restore(self, task: Restore) -> None:
        """The bytes are on disk: slots are made again, the range is no longer damaged."""
        self._log.end_work(task)
        source = task.verified.source
        first, last = source.prev.index + 1, source.last
        if task.cancelled or first < self._cold.first:
            return  # truncated or deleted meanwhile
        self._log.flush.replace_slots(first, b"".join(task.verified.slots))
        self._log.reader.recent.clear()
        self.restored_entries += last - source.prev.index
        self._log.damage.restored(first, last)
