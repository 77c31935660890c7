"""Deletes the first files of a log once a snapshot holds the state after their entries.

    begin_trim ─► TrimTask.run: logstart, then unlink        (any thread; reads go on meanwhile)
    finish_trim ─► the first index moves                     (owner's thread; files are closed)
    restart_at                                               (drops all records; empty at an anchor)

Each log file begins with a record, so a file is deleted without a change to another one, and all
replicas can delete the same files. `logstart` (log_start.py) keeps the *anchor*: index, term and
chain checksum of the last deleted entry, against which the first record left is still checked.
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

    `done` stays False when a full disk has no space to write the beginning; no file is touched.
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
            return  # `finish_trim` returns None, and the caller begins a new trim later
        drop_files(self._files, self._folder, self.start, self._options)
        self.done = True


class LogPrefix:
    """Where one log begins; deletes records from there on."""

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
        #: Where the log begins; None until the first trim.
        self.start = state.start

    def start_at(self, position: int, configuration: str = "") -> LogStart:
        """The beginning that the log gets if the files below `position` are deleted.

        Raises KeyError when no log file begins there, StoreDamaged.
        """
        index = self._reader.index_at(position)
        if position % self._options.data_file_size:
            raise KeyError(f"no log file begins at position {position}")
        (term, last), chain_crc, end = self._reader.tail_at(index - 1)
        return LogStart(term, last, chain_crc or 0, end, position, configuration)

    def is_beginning(self, start: LogStart) -> bool:
        """Can this log begin at `start`, where another replica's log begins?

        Yes also if the record there is damaged here, as replicas are equal byte by byte (S10).
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

        None when there is no file to delete, or when one of the flush mark's two slots on disk
        names a record that would go: if the other slot rots, a start needs that record.
        """
        self._at.check_usable()
        assert self._trim is None, "one deletion at a time"
        if start.index < self._reader.cold.first:
            return None
        if min(self._flush.mark.index, self._flush.mark_file.older.index) <= start.index:
            self._flush.mark_now()  # moves the older slot on, so that a later try can trim
            return None
        self._trim = TrimTask(self._system, self._folder, start, self._options)
        return self._trim

    def finish_trim(self, task: SyncTask) -> LogStart | None:
        """End the trim; from now on the log begins at the new beginning, which is returned.

        None when the disk had no space for it: then the log begins where it began before.
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
        """Drop every record, durably; the next one follows the anchor of `start`.

        Used by a replica whose log ends before the leader's begins. A crash leaves either the whole
        old log or the empty one. Raises OSError: then the log cannot be used any more.
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
