"""`LogStore` in DLedger's files, put together from parts, on `commitlog.files.system`.

    append ─► encode ─► pwrite data, gather slots ─► tail cache        (page cache only)

    part                       holds
    `files`    LogFiles        data files, slots, the tasks that hold one
    `reader`   EntryReader     tail cache, recent pieces, reads that verify
    `flush`    LogFlush        syncs, flush mark, mirrors
    `prefix`   LogPrefix       where the log begins, and how that goes
    `damage`   KnownDamage     ranges that are not what was written
    `pointers` LogPointers     what all of them share: beginning, end, flushed, committed

This module writes at the end and cuts it off. Damage is found and undone from outside
(`repair/scrubber.py`). A crash leaves: everything up to the flush mark; above it any subset of what
was written since, which recovery sorts out; slots that disagree, which are rewritten; a truncation
to be finished.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer, FileSystem
from commitlog.records.record import BLANK_SIZE, HEADER_SIZE, unpack_header
from dledger.core.types import NO_INDEX, EntryId, Index, Term, TermRun
from dledger.durable.flush_mark import NO_MARK, Mark
from dledger.durable.mirrors import Mirrors
from dledger.durable.truncate_intent import Intent
from dledger.errors import RangeRejected
from dledger.log.check import SLOT, Tail, verify_range
from dledger.log.damage import Damage, KnownDamage
from dledger.log.encode import encode_batch, encode_one
from dledger.log.entry_reader import EntryReader
from dledger.log.log_files import FileWork, LogFiles
from dledger.log.log_flush import LogFlush
from dledger.log.log_prefix import LogPrefix
from dledger.log.log_start import LogStart
from dledger.log.options import LogOptions
from dledger.log.pointers import LogPointers
from dledger.log.port import LogRange, ReceivedRange, SyncTask, VerifiedRange
from dledger.log.recovery import Recovered, recover
from dledger.log.runs import cut_runs, join_runs
from dledger.log.tail_cache import Chunk


class FileLog:
    """The log of one replica in one folder. Made by `FileLog.open`."""

    #: A dictionary of so many names has 1.7 KB in each of a thousand groups.
    __slots__ = (
        "_intent_file",
        "begin_mark",
        "begin_sync",
        "begin_trim",
        "bodies",
        "damage",
        "entries",
        "entry",
        "files",
        "finish_mark",
        "finish_sync",
        "finish_trim",
        "flush",
        "id_of",
        "index_at",
        "is_beginning",
        "mark_deadline",
        "options",
        "pointers",
        "position_of",
        "prefix",
        "read_bytes",
        "read_range",
        "reader",
        "recovered_entries",
        "recovery_note",
        "restart_at",
        "save_commit",
        "space",
        "start_at",
        "term_runs",
    )

    def __init__(
        self,
        state: Recovered,
        options: LogOptions,
        clock: Callable[[], float],
        mirrors: Mirrors | None,
    ) -> None:
        at = self.pointers = LogPointers(
            state.before, state.tail, state.last_position, state.runs, NO_MARK, NO_INDEX
        )
        at.flushed = at.end_mark()  # recovery synced everything
        self.options = options
        files = self.files = LogFiles(state.data, state.slots)
        self.space = files.space
        reader = self.reader = EntryReader(state.cold, at, options.cache_size_max)
        flush = self.flush = LogFlush(at, files, state.mark_file, clock, mirrors)
        at.committed = min(flush.mark.committed, at.flushed.index)
        self.damage = KnownDamage(state.damaged)
        prefix = self.prefix = LogPrefix(state, options, at, reader, files, flush, self.damage)
        self._intent_file = state.intent_file
        self.recovered_entries = state.rewritten
        self.recovery_note = state.cut
        # What a part does is that part's own method here: no call passes through another one.
        self.term_runs, self.id_of, self.position_of = (
            reader.term_runs,
            reader.id_of,
            reader.position_of,
        )
        self.index_at, self.entry = reader.index_at, reader.entry
        self.entries, self.bodies = reader.entries, reader.bodies
        self.read_range, self.read_bytes = reader.read_range, reader.read_bytes
        self.begin_sync, self.finish_sync = flush.begin_sync, flush.finish_sync
        self.mark_deadline, self.save_commit = flush.mark_deadline, flush.save_commit
        self.begin_mark, self.finish_mark = flush.begin_mark, flush.finish_mark
        self.start_at, self.is_beginning = prefix.start_at, prefix.is_beginning
        self.begin_trim, self.finish_trim = prefix.begin_trim, prefix.finish_trim
        self.restart_at = prefix.restart_at

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

    # -- where it begins and ends ---------------------------------------------------------------

    @property
    def first_index(self) -> Index:
        """Lowest index that can be read; the index of the next entry when the log is empty."""
        return self.reader.cold.first

    @property
    def first_position(self) -> int:
        """Address at which the first entry begins, or will begin when the log is empty."""
        return self.reader.cold.anchor.end

    @property
    def anchor(self) -> EntryId:
        """Term and index of the entry before the first one; NO_ENTRY if that one is 0."""
        return self.pointers.before.id

    @property
    def start(self) -> LogStart | None:
        """Where the log begins; None while that is where it was formatted."""
        return self.prefix.start

    @property
    def last(self) -> EntryId:
        """Term and index of the newest entry, flushed or not; `anchor` for an empty log."""
        return self.pointers.tail.id

    @property
    def end_position(self) -> int:
        """Address behind the last record; the next one begins here or, if too large, a file on."""
        return self.pointers.tail.end

    @property
    def flushed(self) -> Index:
        """Highest index up to which a finished sync, or recovery, has made the log durable."""
        return self.pointers.flushed.index

    @property
    def commit_hint(self) -> Index:
        """A commit index of an earlier moment, on disk here, checksummed; -1 when unknown."""
        return self.pointers.committed

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """The damaged ranges that are known, by index."""
        return self.damage.ranges

    @property
    def file_size(self) -> int:
        """Bytes of each data file; they begin at its multiples."""
        return self.options.data_file_size

    @property
    def body_size_max(self) -> int:
        """Bytes of the largest body: a file less one header and one blank."""
        return self.options.data_file_size - HEADER_SIZE - BLANK_SIZE

    def path_of(self, position: int) -> Path:
        """The data file that begins at `position`."""
        return self.files.data.path(position)

    def begin_prepare(self) -> SyncTask | None:
        """See `LogStore`."""
        return self.files.begin_prepare(self.pointers.tail.end, self.pointers.tail.id.index)

    # -- writing --------------------------------------------------------------------------------

    def append(self, bodies: Sequence[Buffer], term: Term, *, stamp_at: int = -1) -> Sequence[int]:
        """As `LogStore.append`. Raises EntryTooLarge, LogUsageError; OSError: then stop (D5)."""
        before, options = self.pointers.tail, self.options
        if self.pointers.failed:
            self.pointers.check_usable()
        assert term >= before.id.term, "terms never go back"
        if not bodies:
            return ()
        file_size, fill_crc = options.data_file_size, options.fill_crc
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

    def check_range(self, source: LogRange | ReceivedRange) -> VerifiedRange:
        """As `LogStore.check_range`; needs only `options`, so any thread may call it."""
        return verify_range(source, self.options.data_file_size, self.options.zero_below)

    def append_range(self, source: LogRange | ReceivedRange | VerifiedRange, first: Index) -> None:
        """As `LogStore.append_range`; entries that are here already are skipped."""
        if self.pointers.failed:
            self.pointers.check_usable()
        if not isinstance(source, VerifiedRange):
            source = self.check_range(source)
        if first != self.pointers.tail.id.index + 1:
            raise RangeRejected(f"entry {first} does not follow {self.pointers.tail.id.index}")
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
        if prev.index > self.pointers.tail.id.index or prev.index < self.reader.cold.first - 1:
            raise RangeRejected(f"the range follows entry {prev.index}, which is not here")
        before = self.pointers.tail
        if before.id.index != prev.index:
            before = self.reader.tail_at(prev.index)
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
        if (term, index) != self.pointers.tail.id or position + size != self.pointers.tail.end:
            raise RangeRejected(f"entry {index} of the range is not the one that is here")
        if header.chain_crc != self.pointers.tail.chain_crc:
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
        at, files = self.pointers, self.files
        start, row, dirty = at.tail, files.data, files.dirty
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
            files.slots.append(start.id.index + 1, slots)
        except OSError:
            at.failed = True
            raise
        self.reader.cache.add(Chunk(start, tail.id.index, data, slots))
        join_runs(at.runs, runs)
        at.tail, at.last_position = tail, last_position

    # -- truncation -----------------------------------------------------------------------------

    def truncate_after(self, index: Index) -> None:
        """As `LogStore.truncate_after`: durable when this returns (R11). After OSError: stop."""
        at = self.pointers
        at.check_usable()
        assert index >= at.committed, "never truncate what is committed (S3)"
        assert index >= self.reader.cold.first - 1, "never truncate into a deleted prefix"
        if index >= at.tail.id.index:
            assert index == at.tail.id.index, "the log ends below the truncation point"
            return
        try:
            self._truncate(index)
        except OSError:
            at.failed = True
            raise

    def _truncate(self, index: Index) -> None:
        """R11: intent, mark, zero, sync, clear; only then is anything forgotten.

        Files stay: what follows was promised space in them, which a full disk has no more (L5).
        """
        at, files, reader = self.pointers, self.files, self.reader
        if files.work is not None:
            files.work.cut_after(index)
        old, tail = at.tail, reader.tail_at(index)
        position = reader.position_of(index) if index > at.before.id.index else -1
        kept = Mark(index, tail.id.term, position, tail.chain_crc or 0)
        end = max(tail.end, files.data.start)  # a blank before the first file is not there
        self._intent_file.write(
            Intent(kept.index, kept.term, kept.position, kept.chain_crc, end, old.end)
        )
        self.flush.cancel_mark()
        self.flush.lower_mark(kept)
        for file in files.data.zero(end, min(old.end, files.data.end)):
            file.datasync()
        files.slots.cut_after(index, old.id.index)
        self._intent_file.clear()
        self.flush.cut(kept)
        reader.cut_after(index)
        self.damage.cut_after(index)
        cut_runs(at.runs, index, reader.cold.first)
        at.tail, at.last_position = tail, position

    # -- work from outside ----------------------------------------------------------------------

    def begin_work(self, work: FileWork) -> None:
        """Keep the files open, and tell `work` of truncations, until `end_work`."""
        assert self.files.work is None, "one task at a time"
        self.files.work = work

    def end_work(self, work: FileWork) -> None:
        """The task has run, or was cancelled and will not."""
        assert work is self.files.work, "not the task that is under way"
        self.files.work = None

    # -- the end --------------------------------------------------------------------------------

    def abandon(self) -> None:
        """The owner has given up (a task raised, or it made a mistake): `close` only lets go."""
        self.pointers.failed = True

    def close(self) -> None:
        """Sync all, write mark and mirrors, drop files made ahead. No task may be under way.

        After a failure only the files are released.
        """
        at, files = self.pointers, self.files
        is_busy = files.sync is not None or files.marking is not None
        assert at.failed or not is_busy, "a task is under way"
        try:
            if not at.failed:
                self.flush.settle()
                files.drop_unused(at.tail.end, at.tail.id.index)
        finally:
            for part in (files, self.flush.mark_file, self._intent_file):
                part.close()
            self.reader.close()
