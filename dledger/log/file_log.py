"""`LogStore` in DLedger's files: what the port promises, on `commitlog.files.system`.

    append ─► encode ─► pwrite data, gather slots ─► tail cache        (page cache only)
    begin_sync ─► LogSync.run: fdatasync ─► finish_sync: flushed        (durable)
    begin_mark ─► MarkSync.run: slots, flush mark, mirrors              (known to be durable)

A crash leaves: everything up to the flush mark; above it any subset of what was written since,
which recovery sorts out; slots that disagree, which are rewritten; a truncation to be finished.

Fresh entries are served from the tail cache; older ones are read and verified by `cold.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer, File, FileSystem
from commitlog.records.record import BLANK_SIZE, HEADER_SIZE, unpack_header
from dledger.core.types import EntryId, Index, Term, TermRun
from dledger.durable.flush_mark import MARK_DELAY_S, Mark
from dledger.durable.mirrors import MIRROR_DELAY_S, Mirrors
from dledger.durable.truncate_intent import Intent
from dledger.errors import RangeRejected
from dledger.log.check import SLOT, Tail, verify_range
from dledger.log.encode import encode_batch, encode_one
from dledger.log.log_space import LogSpace
from dledger.log.log_tasks import LogSync, MarkSync
from dledger.log.options import LogOptions
from dledger.log.port import LogRange, ReceivedRange, SyncTask, VerifiedRange
from dledger.log.recovery import Recovered, recover
from dledger.log.runs import cut_runs, join_runs
from dledger.log.slots import SLOT_SIZE
from dledger.log.tail_cache import Chunk
from dledger.repair.mending import LogMending

SLOTS_BEHIND_MAX = 1 << 16  # entries; recovery after a crash rescans no more than these for slots


class FileLog(LogMending):
    """The log of one replica in one folder. Made by `FileLog.open`."""

    def __init__(
        self,
        state: Recovered,
        options: LogOptions,
        clock: Callable[[], float],
        mirrors: Mirrors | None,
    ) -> None:
        super().__init__(state.cold, state.before, state.tail, state.runs, options.cache_size_max)
        self._data, self._slots = state.data, state.slots
        self.space = LogSpace(state.data, state.slots)
        self._mark_file, self._intent_file = state.mark_file, state.intent_file
        self._options, self._clock, self._mirrors = options, clock, mirrors
        self._last_position = state.last_position
        self._dirty: list[File] = []  # written since the last sync began; a few at most
        self._flushed = self._end_mark()  # recovery synced everything
        self._sync: LogSync | None = None
        self._marking: MarkSync | None = None
        self._mark_due: float | None = None
        self._hint_due: float | None = None
        self._committed = min(self._mark.committed, self._flushed.index)
        self._failed = False
        self._begin_mending(state.damaged)
        self.recovered_entries = state.rewritten
        self.recovery_note = state.cut

    @classmethod
    def open(
        cls,
        files: FileSystem,
        folder: Path,
        options: LogOptions,
        *,
        clock: Callable[[], float],
        mirrors: Mirrors | None = None,
    ) -> Self:
        """Recover and open the log of a formatted folder. Raises LogDamaged, StoreLayoutError.

        `clock` gives seconds and never goes back; it is used for `mark_deadline` only.
        """
        options.validate()
        return cls(recover(files, folder, options), options, clock, mirrors)

    # -- writing --------------------------------------------------------------------------------

    def append(self, bodies: Sequence[Buffer], term: Term, *, stamp_at: int = -1) -> Sequence[int]:
        if self._failed:
            self._check_usable()
        assert term >= self._tail.id.term, "terms never go back"
        if not bodies:
            return ()
        before, file_size, fill_crc = self._tail, self._data.file_size, self._options.fill_crc
        if len(bodies) == 1:
            data, slots, positions, tail = encode_one(
                bodies[0], term, before, file_size=file_size, stamp_at=stamp_at, fill_crc=fill_crc
            )
        else:
            data, slots, positions, tail = encode_batch(
                bodies, term, before, file_size=file_size, stamp_at=stamp_at, fill_crc=fill_crc
            )
        runs = (TermRun(term, tail.id.index),)
        self._write(memoryview(data).toreadonly(), slots, runs, tail, positions[-1])
        return positions

    @property
    def body_size_max(self) -> int:
        return self._data.file_size - HEADER_SIZE - BLANK_SIZE

    def check_range(self, source: LogRange | ReceivedRange) -> VerifiedRange:
        return verify_range(source, self._data.file_size, self._options.zero_below)

    def append_range(self, source: LogRange | ReceivedRange | VerifiedRange, first: Index) -> None:
        if self._failed:
            self._check_usable()
        if not isinstance(source, VerifiedRange):
            source = self.check_range(source)
        if first != self._tail.id.index + 1:
            raise RangeRejected(f"entry {first} does not follow {self._tail.id.index}")
        before = self._start_of(source.source)
        data, slots = source.data, source.slots
        known = first - before.id.index - 1  # entries of the range that are here already
        if known >= len(slots):
            return
        if known:
            data = self._skip_known(data, before, slots, known)
            slots = slots[known:]
        packed = slots[-1]
        _, position, _, index, term = SLOT.unpack(packed)
        tail = Tail(EntryId(term, index), source.tail_chain_crc, source.end)
        if len(slots) > 1:
            packed = b"".join(slots)
        self._write(data, packed, source.source.runs, tail, position)

    def _start_of(self, source: LogRange | ReceivedRange) -> Tail:
        """Our tail at the range's `prev`, which must be the sender's (Log Matching, R19)."""
        prev = source.prev
        if prev.index > self._tail.id.index or prev.index < self._cold.first - 1:
            raise RangeRejected(f"the range follows entry {prev.index}, which is not here")
        before = self._tail
        if before.id.index != prev.index:
            before = self._tail_at(prev.index)
        if before.id != prev:
            raise RangeRejected(f"the range follows {prev} and the log has {before.id} there")
        if before.chain_crc is not None and before.chain_crc != source.prev_chain_crc:
            raise StoreDamaged(
                f"entry {prev.index} of term {prev.term} has chain checksum "
                f"{before.chain_crc:08x} here and {source.prev_chain_crc:08x} at the sender",
                position=before.end,
            )
        if source.size and source.position != before.end:
            raise RangeRejected(
                f"the range begins at position {source.position} and must begin at {before.end}"
            )
        return before

    def _skip_known(
        self, data: memoryview, before: Tail, slots: list[bytes], known: int
    ) -> memoryview:
        """The bytes behind the entries that are here already, which must be the same ones."""
        _, position, size, index, term = SLOT.unpack(slots[known - 1])
        header = unpack_header(data, position - before.end)
        if (term, index) != self._tail.id or position + size != self._tail.end:
            raise RangeRejected(f"entry {index} of the range is not the one that is here")
        if header.chain_crc != self._tail.chain_crc:
            raise StoreDamaged(
                f"entry {index} of term {term} has another chain checksum here than at the sender",
                position=position,
            )
        return data[position + size - before.end :]

    def _write(
        self,
        data: memoryview,
        slots: bytes | bytearray,
        runs: Sequence[TermRun],
        tail: Tail,
        last_position: int,
    ) -> None:
        """Write verified bytes at the end. An OSError leaves the store failed (D5)."""
        start, row, dirty = self._tail, self._data, self._dirty
        assert start.end + len(data) == tail.end
        try:
            while tail.end > row.end:
                row.extend()
            position, written = start.end, data
            if position < row.start:  # a blank whose file is gone
                position, written = row.start, data[row.start - position :]
            for file in row.write(written, position):
                if file not in dirty:
                    dirty.append(file)
            self._slots.append(start.id.index + 1, slots)
        except OSError:
            self._failed = True
            raise
        self._cache.add(Chunk(start, tail.id.index, data, slots))
        join_runs(self._runs, runs)
        self._tail, self._last_position = tail, last_position

    def _check_usable(self) -> None:
        if self._failed:
            raise OSError(errno.EIO, "the log failed before; stop this replica and start it again")

    # -- durability -----------------------------------------------------------------------------

    @property
    def _mark(self) -> Mark:
        assert self._mark_file.mark is not None
        return self._mark_file.mark

    def _end_mark(self) -> Mark:
        (term, index), chain_crc, _ = self._tail
        return Mark(index, term, self._last_position, chain_crc or 0)

    def begin_sync(self) -> LogSync | None:
        if self._failed:
            self._check_usable()
        assert self._sync is None, "one sync at a time"
        if self._tail.id.index == self._flushed.index:  # asked after every event
            return None
        self._sync = LogSync(self._data.in_order(self._dirty), self._end_mark())
        self._dirty = []
        return self._sync

    def finish_sync(self, task: SyncTask) -> Index:
        sync = self._sync
        assert sync is not None
        assert task is sync, "not the sync that is under way"
        assert sync.done, "the sync did not run to its end"
        self._sync = None
        if not sync.cancelled:  # else a truncation came between, and the next sync tells the end
            self._flushed = sync.mark
            if self._mark_due is None:
                self._mark_due = self._clock() + MARK_DELAY_S
        self._release_unlinked()
        return self._flushed.index

    def mark_deadline(self) -> float | None:
        if self._marking is not None:
            return None
        if self._mirrors is not None and self._hint_due is None and self._mirrors.stale:
            self._hint_due = self._clock() + MIRROR_DELAY_S
        if self._slots_mended and self._mark_due is None:
            self._mark_due = self._clock() + MARK_DELAY_S
        due, hint = self._mark_due, self._hint_due  # asked for after every event: no list is built
        if due is None or hint is None:
            return hint if due is None else due
        return min(due, hint)

    def begin_mark(self) -> MarkSync | None:
        self._check_usable()
        assert self._marking is None, "one mark at a time"
        hint = self._hint_due is not None and self._hint_due <= self._clock()
        if self._mark_due is None and not hint:
            return None
        try:
            self._slots.settle()
        except OSError:
            self._failed = True
            raise
        flushed, slots, slot_files = self._flushed, self._mark.slots, list[File]()
        if self._slots_mended or flushed.index - slots > SLOTS_BEHIND_MAX:
            self._slots_mended = False
            slots, slot_files = flushed.index, self._slots.take_dirty()
        committed = min(self._committed, flushed.index)
        mark = Mark(
            flushed.index, flushed.term, flushed.position, flushed.chain_crc, slots, committed
        )
        self._mark_due = None
        if hint:
            self._hint_due = None
            self._tell_mirrors()
        self._marking = MarkSync(self._mark_file, mark, slot_files, self._mirrors if hint else None)
        return self._marking

    def finish_mark(self, task: SyncTask) -> None:
        marking = self._marking
        assert marking is not None
        assert task is marking, "not the mark that is under way"
        assert marking.done, "the mark was not written"
        self._marking = None
        if marking.cancelled:
            self._mark_due = self._clock()
            self._slots.give_back(marking.slot_files)
            self._slots_mended = self._slots_mended or bool(marking.slot_files)
        self._release_unlinked()

    def save_commit(self, committed: Index) -> None:
        assert committed <= self._tail.id.index, "commit never exceeds the log's end (W5)"
        if committed <= self._committed:
            return
        self._committed = committed
        if self._hint_due is None:
            self._hint_due = self._clock() + MIRROR_DELAY_S

    def _tell_mirrors(self) -> None:
        if self._mirrors is not None:
            self._mirrors.set_commit(self._committed, self._tail.id.index)

    def begin_prepare(self) -> SyncTask | None:
        used = (self._tail.id.index + 1) * SLOT_SIZE
        return self._data.begin_prepare(self._tail.end) or self._slots.row.begin_prepare(used)

    # -- truncation -----------------------------------------------------------------------------

    def truncate_after(self, index: Index) -> None:
        self._check_usable()
        assert index >= self._committed, "never truncate what is committed (S3)"
        assert index >= self._cold.first - 1, "never truncate into a deleted prefix"
        if index >= self._tail.id.index:
            assert index == self._tail.id.index, "the log ends below the truncation point"
            return
        try:
            self._truncate(index)
        except OSError:
            self._failed = True
            raise
        self._release_unlinked()

    def _truncate(self, index: Index) -> None:
        """R11: intent, mark, unlink, zero, sync, clear; only then is anything forgotten."""
        self._stop_mending(index)
        old, tail = self._tail, self._tail_at(index)
        position = self.position_of(index) if index > self._before.id.index else -1
        kept = Mark(index, tail.id.term, position, tail.chain_crc or 0)
        end = max(tail.end, self._data.start)  # a blank before the first file is not there
        self._intent_file.write(
            Intent(kept.index, kept.term, kept.position, kept.chain_crc, end, old.end)
        )
        if self._marking is not None:
            self._marking.cancel()
        mark = self._mark
        if mark.index > index:
            self._mark_file.write_both(  # an older slot would name what is gone, should one rot
                replace(kept, slots=min(mark.slots, index), committed=min(mark.committed, index))
            )
        self._data.drop_after(end)
        self._dirty = self._data.in_order(self._dirty)
        for file in self._data.zero(end, min(old.end, self._data.end)):
            file.datasync()
        self._slots.cut_after(index, old.id.index)
        self._intent_file.clear()
        if self._sync is not None:
            self._sync.cancelled = True
        if self._flushed.index > index:
            self._flushed = kept
        self._cache.cut_after(index)
        self._recent.clear()
        self._forget_damage(index)
        cut_runs(self._runs, index, self._cold.first)
        self._tail, self._last_position = tail, position

    def _release_unlinked(self) -> None:
        """Close files that were unlinked, once no task can hold one."""
        for row in (self._data, self._slots.row):
            if row.unlinked and not (self._sync or self._marking or self._mending):
                row.close_unlinked()

    # -- the end --------------------------------------------------------------------------------

    def abandon(self) -> None:
        """The owner has given up (a task raised, or it made a mistake): `close` only lets go."""
        self._failed = True

    def close(self) -> None:
        """Sync all, write mark and mirrors, drop files made ahead. No task may be under way.

        After a failure only the files are released.
        """
        assert self._failed or (self._sync is None and self._marking is None), "a task is under way"
        try:
            if not self._failed:
                self._settle()
        finally:
            for part in (self._data, self._slots.row, self._mark_file, self._intent_file):
                part.close()
            self._cache.clear()
            self._recent.clear()

    def _settle(self) -> None:
        task = self.begin_sync()
        if task is not None:
            task.run()
            self.finish_sync(task)
        for file in self._slots.take_dirty():
            file.datasync()
        committed = min(self._committed, self._flushed.index)
        self._mark_file.write_both(
            replace(self._flushed, slots=self._flushed.index, committed=committed)
        )
        if self._mirrors is not None:
            self._tell_mirrors()
            self._mirrors.write(self._mirrors.capture())
        self._data.drop_after(max(self._tail.end, self._data.start))
        self._slots.row.drop_after((self._tail.id.index + 1) * SLOT_SIZE)
