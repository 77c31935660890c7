"""The beginning of a log can go: whole files, once a snapshot holds the state they led to.

    begin_trim ─► TrimTask.run: logstart, then unlink        (any thread; reads go on meanwhile)
    finish_trim ─► the first index moves                     (owner's thread; files are closed)
    restart_at                                               (nothing stays; empty behind an anchor)

A log file begins with a record, so it is deleted without touching another one, and all replicas
can delete the same ones. What the new first record continues, its index, term and chain checksum,
is kept in `logstart` (log_start.py): the log stays anchored in what is gone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from commitlog.errors import StoreDamaged
from commitlog.files.system import FileSystem, is_out_of_space
from dledger.core.types import Index
from dledger.durable.flush_mark import mark_of
from dledger.log import log_start
from dledger.log.damage import KnownDamage
from dledger.log.entry_reader import EntryReader
from dledger.log.log_files import LogFiles
from dledger.log.log_flush import LogFlush
from dledger.log.log_start import LogStart
from dledger.log.options import LogOptions
from dledger.log.pointers import LogPointers
from dledger.log.port import SyncTask
from dledger.log.recovery import Recovered, drop_files, empty
from dledger.log.slots import SLOT_SIZE


class TrimTask:
    """Make the new beginning durable, then unlink the files below it. Raises OSError.

    `done`: False when a full disk has no space for the new beginning; then nothing has changed.
    """

    def __init__(
        self, files: FileSystem, folder: Path, start: LogStart, options: LogOptions
    ) -> None:
        self._files, self._folder, self._options = files, folder, options
        self.start = start
        self.done = False

    def run(self) -> None:
        """Writes the new beginning, then unlinks the files below it; in any thread."""
        staging = self._folder / "staging"
        try:
            log_start.write(self._files, self._folder, self.start, staging=staging)
        except OSError as error:
            if not is_out_of_space(error):
                raise
            return  # a caller that still wants it asks again
        drop_files(self._files, self._folder, self.start, self._options)
        self.done = True


class LogPrefix:
    """The beginning of one log: where it is, how it goes."""

    def __init__(
        self,
        state: Recovered,
        options: LogOptions,
        pointers: LogPointers,
        reader: EntryReader,
        files: LogFiles,
        flush: LogFlush,
        damage: KnownDamage,
    ) -> None:
        self._system, self._folder, self._options = state.files, state.folder, options
        self._intent_file = state.intent_file
        self._at, self._reader, self._files = pointers, reader, files
        self._flush, self._damage = flush, damage
        self._trim: TrimTask | None = None
        #: Where the log begins; None while that is where it was formatted.
        self.start = state.start

    def start_at(self, position: int, configuration: str = "") -> LogStart:
        """The beginning that a log without the files below `position` has.

        Raises KeyError when no record begins there, StoreDamaged.
        """
        index = self._reader.index_at(position)
        if position % self._options.data_file_size:
            raise KeyError(f"no log file begins at position {position}")
        (term, last), chain_crc, end = self._reader.tail_at(index - 1)
        return LogStart(term, last, chain_crc or 0, end, position, configuration)

    def is_beginning(self, start: LogStart) -> bool:
        """Could the log begin there, as another replica's does?

        What is damaged here is not asked: replicas are the same byte by byte (S10).
        """
        try:
            begins = self._reader.index_at(start.position) == start.index + 1
        except StoreDamaged:
            begins = True
        except KeyError:
            begins = False
        return begins and start.position % self._options.data_file_size == 0

    def begin_trim(self, start: LogStart) -> TrimTask | None:
        """Task that deletes the files below `start`; ended by `finish_trim`. One at a time.

        None when there is nothing to delete, or the flush mark has not passed it yet, on disk and
        in both slots: whichever rots, the other one names a record that is there.
        """
        self._at.check_usable()
        assert self._trim is None, "one deletion at a time"
        if start.index < self._reader.cold.first:
            return None
        if min(self._flush.mark.index, self._flush.mark_file.older.index) <= start.index:
            self._flush.mark_now()  # into the other slot; the next try finds it there
            return None
        self._trim = TrimTask(self._system, self._folder, start, self._options)
        return self._trim

    def finish_trim(self, task: SyncTask) -> LogStart | None:
        """End the trim: entries below the new beginning are not read any more. Returns it.

        None when there was no space to write it down: the log begins where it began.
        """
        trim = self._trim
        assert trim is not None
        assert task is trim, "not the deletion that is under way"
        self._trim = None
        if not trim.done:
            return None
        start, files = trim.start, self._files
        files.data.forget_before(start.position)
        files.slots.row.forget_before((start.index + 1) * SLOT_SIZE)
        files.files_left()
        self._at.runs[:] = [run for run in self._at.runs if run.last > start.index]
        self._reader.recent.clear()
        self._begin_at(start)
        files.close_unlinked()
        return start

    def restart_at(self, start: LogStart) -> None:
        """Drop every record; the log is empty behind the anchor of `start`, durably.

        For a replica whose log ends before another one's begins. A crash leaves the whole old log
        or the empty one. Raises OSError: then stop.
        """
        at = self._at
        at.check_usable()
        assert self._trim is None, "a deletion is under way"
        assert start.index > at.committed, "what is committed here is kept (S3)"
        try:
            self._restart(replace(start, emptied=True))
        except OSError:
            at.failed = True
            raise
        if self._files.sync is not None:
            self._files.sync.cancelled = True
        at.flushed = mark_of(start.anchor, start.chain_crc)
        at.committed = start.index
        self._reader.cut_after(-1)
        at.runs.clear()
        at.tail, at.last_position = start.tail, -1
        self._begin_at(start)
        self._files.close_unlinked()

    def _restart(self, start: LogStart) -> None:
        files = self._files
        log_start.write(self._system, self._folder, start, staging=self._folder / "staging")
        self._flush.cancel_mark()
        files.data.forget()
        files.slots.take_dirty()
        files.slots.row.forget()
        files.dirty = []
        empty(self._system, self._folder, start, self._flush.mark_file, self._intent_file)
        files.data.first_file(start.position)
        files.slots.begin_at(Index(start.index + 1))

    def _begin_at(self, start: LogStart) -> None:
        self.start, self._at.before = start, start.tail
        self._reader.cold.begin_at(start.in_files)
        self._damage.cut_before(self._reader.cold.first)
