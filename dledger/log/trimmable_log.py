"""A log whose beginning can go: whole files, once a snapshot holds what they said.

    begin_trim ─► TrimTask.run: logstart, then unlink        (any thread; reads go on meanwhile)
    finish_trim ─► the first index moves                     (owner's thread; files are closed)
    restart_at                                               (nothing stays; empty behind an anchor)

A log file begins with a record, so it is deleted without touching another one, and all replicas
can delete the same ones. What the new first record continues, its index, term and chain checksum,
is kept in `logstart` (log_start.py): the log stays anchored in what is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from commitlog.errors import StoreDamaged
from commitlog.files.system import FileSystem, is_out_of_space
from dledger.core.types import Index
from dledger.durable.flush_mark import mark_of
from dledger.durable.mirrors import Mirrors
from dledger.log import log_start
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.log.options import LogOptions
from dledger.log.port import SyncTask
from dledger.log.recovery import Recovered, drop_files, empty
from dledger.log.slots import SLOT_SIZE


class TrimTask:
    """Make the new beginning durable, then unlink what is below it. Raises OSError.

    `done`: False when a full disk has no room for the new beginning; then nothing has changed.
    """

    def __init__(
        self, files: FileSystem, folder: Path, start: LogStart, options: LogOptions
    ) -> None:
        self._files, self._folder, self._options = files, folder, options
        self.start = start
        self.done = False

    def run(self) -> None:
        staging = self._folder / "staging"
        try:
            log_start.write(self._files, self._folder, self.start, staging=staging)
        except OSError as error:
            if not is_out_of_space(error):
                raise
            return  # whoever wants it asks again
        drop_files(self._files, self._folder, self.start, self._options)
        self.done = True


class TrimmableLog(FileLog):
    """`FileLog` that can lose its beginning. Made by `TrimmableLog.open`."""

    def __init__(
        self,
        state: Recovered,
        options: LogOptions,
        clock: Callable[[], float],
        mirrors: Mirrors | None,
    ) -> None:
        super().__init__(state, options, clock, mirrors)
        self._files, self._folder = state.files, state.folder
        self._trim: TrimTask | None = None
        #: Where the log begins; None while that is where it was formatted.
        self.start = state.start

    @property
    def file_size(self) -> int:
        """Bytes of each data file; they begin at its multiples."""
        return self._data.file_size

    def path_of(self, position: int) -> Path:
        """The data file that begins at `position`."""
        return self._data.path(position)

    def start_at(self, position: int, configuration: str = "") -> LogStart:
        """The beginning that a log without the files below `position` has.

        Raises KeyError when no record begins there, StoreDamaged.
        """
        index = self.index_at(position)
        if position % self._data.file_size:
            raise KeyError(f"no log file begins at position {position}")
        (term, last), chain_crc, end = self._tail_at(index - 1)
        return LogStart(term, last, chain_crc or 0, end, position, configuration)

    def is_beginning(self, start: LogStart) -> bool:
        """Could the log begin there, as another replica's does?

        What is damaged here is not asked: replicas are the same byte by byte (S10).
        """
        try:
            begins = self.index_at(start.position) == start.index + 1
        except StoreDamaged:
            begins = True
        except KeyError:
            begins = False
        return begins and start.position % self._data.file_size == 0

    def begin_trim(self, start: LogStart) -> TrimTask | None:
        """Task that deletes the files below `start`; ended by `finish_trim`. One at a time.

        None when there is nothing to delete, or the flush mark has not passed it yet, on disk and
        in both slots: whichever rots, the other one names a record that is there.
        """
        self._check_usable()
        assert self._trim is None, "one deletion at a time"
        if start.index < self.first_index:
            return None
        if min(self._mark.index, self._mark_file.older.index) <= start.index:
            self._mark_due = self._clock()  # into the other slot; the next try finds it there
            return None
        self._trim = TrimTask(self._files, self._folder, start, self._options)
        return self._trim

    def finish_trim(self, task: SyncTask) -> LogStart | None:
        """What is below the new beginning is not read any more; returns where that is.

        None when there was no room to write it down: the log begins where it began.
        """
        trim = self._trim
        assert trim is not None
        assert task is trim, "not the deletion that is under way"
        self._trim = None
        if not trim.done:
            return None
        start = trim.start
        self._data.forget_before(start.position)
        self._slots.row.forget_before((start.index + 1) * SLOT_SIZE)
        self._dirty = self._data.in_order(self._dirty)
        self._runs[:] = [run for run in self._runs if run.last > start.index]
        self._recent.clear()
        self._begin_at(start)
        self._release_unlinked()
        return start

    def restart_at(self, start: LogStart) -> None:
        """Drop every record; the log is empty behind the anchor of `start`, durably.

        For a replica whose log ends before another one's begins. A crash leaves the whole old log
        or the empty one. Raises OSError: then stop.
        """
        self._check_usable()
        assert self._trim is None, "a deletion is under way"
        assert start.index > self._committed, "what is committed here is kept (S3)"
        try:
            self._restart(replace(start, emptied=True))
        except OSError:
            self._failed = True
            raise
        if self._sync is not None:
            self._sync.cancelled = True
        self._flushed = mark_of(start.anchor, start.chain_crc)
        self._committed = start.index
        self._cache.cut_after(-1)
        self._recent.clear()
        self._runs.clear()
        self._tail, self._last_position = start.tail, -1
        self._begin_at(start)
        self._release_unlinked()

    def _restart(self, start: LogStart) -> None:
        log_start.write(self._files, self._folder, start, staging=self._folder / "staging")
        if self._marking is not None:
            self._marking.cancel()
        self._data.forget()
        self._slots.take_dirty()
        self._slots.row.forget()
        self._dirty = []
        empty(self._files, self._folder, start, self._mark_file, self._intent_file)
        self._data.first_file(start.position)
        self._slots.begin_at(Index(start.index + 1))

    def _begin_at(self, start: LogStart) -> None:
        self.start, self._before = start, start.tail
        self._cold.begin_at(start.in_files)
        self._forget_damage_below(self._cold.first)
