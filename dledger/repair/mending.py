"""Damage in the log of a running replica: found, kept apart, and good bytes put back.

    scrub          a thread verifies what lies on disk (`scrub.py`)
    quarantine     `damaged`: ranges of entries. Every read verifies and so refuses them anyway;
                   the list is for people, for the rules and for repair
    restore        bytes of the same entries, from our own memory or from a peer, are written and
                   synced by a thread in the place of the damaged ones; slots are made again

Only the same entries are put back: they continue our record before them (id, chain checksum,
position), have the terms that our log has there, and their own checksums lead from one to the next
(Log Matching: the same index and term means the same bytes, committed or not: a group may need just
this replica to commit them). A crash while they are written leaves damage where damage was. What is
truncated meanwhile is not written any more: something else may stand there.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from commitlog.errors import StoreDamaged
from commitlog.records.checksum import crc32
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import EntryId, Index, Term
from dledger.durable.flush_mark import Mark
from dledger.errors import RangeRejected
from dledger.log.check import Tail, check_records, verify_range
from dledger.log.damage import Damage
from dledger.log.file_row import FileRow
from dledger.log.log_reading import READ_SIZE, LogReading
from dledger.log.options import LogOptions
from dledger.log.port import LogRange, ReceivedRange, VerifiedRange
from dledger.log.runs import runs_between
from dledger.log.slots import SLOT_SIZE, SlotFiles
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

    def cancel(self) -> None:
        """When this returns nothing is being written, and nothing will be: waits for a copy of one
        range at most, not for a sync."""
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


class LogMending(LogReading):
    """The part of `FileLog` that looks for damage and undoes it. One task of it at a time."""

    _data: FileRow
    _slots: SlotFiles
    _options: LogOptions
    _flushed: Mark
    _committed: Index

    def _begin_mending(self, damaged: list[Damage]) -> None:
        self._damaged = damaged
        self._mending: Scrub | Restore | None = None
        self.restored_entries = self.mended_slots = 0
        #: Slots were mended and are not synced: the next mark does it.
        self._slots_mended = False

    @property
    def flushed(self) -> Index:
        return self._flushed.index

    @property
    def commit_hint(self) -> Index:
        """A commit index of an earlier moment, on disk here, checksummed; -1 when unknown."""
        return self._committed

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """What is known to be damaged, by index."""
        return tuple(self._damaged)

    @property
    def when_damaged(self) -> Callable[[Index], None]:
        """Called with the index of a record that a read has found damaged."""
        return self._cold.when_damaged

    @when_damaged.setter
    def when_damaged(self, told: Callable[[Index], None]) -> None:
        self._cold.when_damaged = told

    # -- looking --------------------------------------------------------------------------------

    def begin_scrub(self, start: Tail | None, size: int) -> Scrub | None:
        """A look at what follows `start` (None: from the first entry), some `size` bytes of it.

        None when nothing that is on disk follows it.
        """
        assert self._mending is None, "one task at a time"
        anchor, last = self._cold.anchor, self._flushed.index
        # Also of a pass that had reached just what was deleted meanwhile, or of the log before a
        # state was installed: then its end may lie before the first file.
        if start is None or start.id.index <= anchor.id.index or start.end < anchor.end:
            start = anchor
        if start.id.index < last:
            self._mending = self._scrub(start, last, size)
        return self._mending

    def _scrub(self, start: Tail, last: Index, size: int) -> Scrub:
        self._slots.settle()
        first, row = start.id.index + 1, self._slots.row
        return Scrub(
            start,
            last,
            size,
            list(self._data.pieces(start.end, self._tail.end - start.end)),
            list(row.pieces(first * SLOT_SIZE, (last + 1 - first) * SLOT_SIZE)),
            file_size=self._data.file_size,
            zero_below=self._options.zero_below,
        )

    def verify(self, first: Index, last: Index, size: int) -> Scrub:
        """Look at entries `first`..`last`, some `size` bytes of them, now and in this thread."""
        scrub = self._scrub(self.start_before(first), last, size)
        scrub.run()
        if scrub.reason:
            self.when_damaged(Index(scrub.tail.id.index + 1))
        return scrub

    def start_before(self, index: Index) -> Tail:
        """Where a scrub begins that shall see the record `index`."""
        return self._cold.known_before(index)

    def finish_scrub(self, scrub: Scrub) -> Tail | None:
        """Take in what was found; where to go on, None at the end."""
        assert scrub is self._mending
        self._mending = None
        first, whole = Index(scrub.start.id.index + 1), scrub.tail.id.index
        if scrub.cancelled or first < self._cold.first:
            return None
        if scrub.slots_differ and scrub.packed:
            self._write_repaired_slots(first, scrub.packed)
            self.mended_slots += len(scrub.packed) // SLOT_SIZE
        self._damaged = [d for d in self._damaged if not first <= d.first <= d.last <= whole]
        going_on: Tail | None = scrub.tail
        if scrub.reason:
            going_on = self._note(Index(whole + 1), scrub.reason)
        return None if going_on is None or going_on.id.index >= scrub.last else going_on

    def _write_repaired_slots(self, first: int, slots: bytes) -> None:
        """Write slots over wrong ones; the next mark syncs them, in its thread."""
        self._slots.write(first, slots)
        self._slots_mended = True

    def _note(self, first: Index, reason: str) -> Tail | None:
        """Quarantine from `first` on; the tail of the first record known to be whole behind it."""
        last, step = first, 1
        end = self._flushed.index
        while last < end and not self._stands(last):
            last, step = Index(min(last + step, end)), step * 2
        damage = Damage(first, last, reason)
        others = [d for d in self._damaged if d.last < first or d.first > last]
        self._damaged = sorted([*others, damage], key=lambda d: d.first)
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
        if crc32(self._data.read(header.position + HEADER_SIZE, header.body_size)) != (
            header.body_crc
        ):
            return False
        if index == self._tail.id.index:
            return header.chain_crc == self._tail.chain_crc
        following = self._cold.by_slot(index + 1)
        if following is None:
            return False
        tail = Tail(EntryId(Term(header.epoch), index), header.chain_crc, end)
        view = memoryview(self._data.read(end, following.position + following.size - end))
        file_size, zero_below = self._data.file_size, self._options.zero_below
        return bool(check_records(view, tail, file_size, zero_below).slots)

    def whole_through(self, first: Index, last: Index) -> Index:
        """Up to where entries `first`..`last` can be read; what is in memory is whole."""
        if self._cache.find(first) is not None:
            return last
        index = int(first)
        while index <= last:
            try:
                piece = self._cold.read(index, self._tail.end, READ_SIZE)
            except StoreDamaged:
                return Index(index - 1)
            index = piece.checked.tail.id.index + 1
        return last

    # -- putting back ---------------------------------------------------------------------------

    def own_range(self, damage: Damage, size_max: int) -> LogRange | None:
        """The entries as they were written, while they are in memory."""
        if self._cache.find(damage.first) is None:
            return None
        return self.read_range(damage.first, damage.last, size_max)

    def begin_restore(self, source: LogRange | ReceivedRange) -> Restore | None:
        """None when our record before the range turns out to be damaged as well.

        Raises RangeRejected when these are not our entries, or are not on disk here.
        """
        assert self._mending is None, "one task at a time"
        verified = verify_range(source, self._data.file_size, self._options.zero_below)
        prev, first = source.prev, Index(source.prev.index + 1)
        if not first <= source.last <= self._flushed.index:
            raise RangeRejected(f"entries {first} to {source.last} are not on disk here")
        if source.runs != runs_between(self._runs, first, source.last):
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
        if source.position + skip != before.end or verified.end > self._tail.end:
            raise RangeRejected(f"entry {first} is at position {before.end} here")
        pieces = list(self._data.pieces(before.end, source.size - skip))
        self._mending = Restore(verified, verified.data[skip:], pieces)
        return self._mending

    def _extend_down(self, first: Index) -> None:
        """The record before a damaged one is not what the peer has: it is damaged, too (R19)."""
        known = self._cold.known_before(Index(first - 1)).id.index
        reason = f"record {first - 1} is not what a peer has"
        self._damaged = [
            Damage(Index(known + 1), d.last, reason) if d.first == first else d
            for d in self._damaged
        ]

    def finish_restore(self, task: Restore) -> None:
        """The bytes are on disk: slots are made again, the range is no longer damaged."""
        assert task is self._mending
        self._mending = None
        source = task.verified.source
        first, last = source.prev.index + 1, source.last
        if task.cancelled or first < self._cold.first:
            return  # truncated or deleted meanwhile
        self._write_repaired_slots(first, b"".join(task.verified.slots))
        self._recent.clear()
        self.restored_entries += last - source.prev.index
        left = []
        for damage in self._damaged:
            if damage.first > last or damage.last < first:
                left.append(damage)
            elif damage.last > last:
                left.append(Damage(Index(last + 1), damage.last, damage.reason))
        self._damaged = left

    def _stop_mending(self, index: Index) -> None:
        """Entries above `index` are about to be truncated."""
        if isinstance(self._mending, Scrub) and self._mending.last > index:
            self._mending.cancelled = True
        if isinstance(self._mending, Restore) and self._mending.verified.source.last > index:
            self._mending.cancel()

    def _forget_damage(self, index: Index) -> None:
        """Entries above `index` are truncated."""
        kept = [d for d in self._damaged if d.first <= index]
        self._damaged = [Damage(d.first, min(d.last, index), d.reason) for d in kept]

    def _forget_damage_below(self, first: Index) -> None:
        """The log begins with entry `first` now."""
        kept = [d for d in self._damaged if d.last >= first]
        self._damaged = [Damage(max(d.first, first), d.last, d.reason) for d in kept]
