"""Saves the state at the beginnings of log files: it stands in for deleted entries (R15, R16).

    dispatch reaches a file's first record ─► the state before it is taken at once
    the next checkpoint                    ─► that state is on disk before the checkpoint itself
    log files deleted                      ─► a queue that is read begins where the log does
    the next checkpoint                    ─► queues and index drop entries that pointed there
    start without a usable checkpoint      ─► all is derived again from the log's first record on,
                                              based on the saved state before it; if that is lost,
                                              too, the replica stays empty until a leader sends one

The state at a file's beginning covers all entries before it, so state and files together cover the
whole log, without a gap or an overlap.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from cluster.core.apply import AppliedState
from cluster.core.captured_state import CapturedState
from commitlog.dispatch.derived import DerivedFiles
from commitlog.errors import StoreDamaged
from commitlog.queues.consume_queue import ConsumeQueue
from dledger.core.types import Index
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.snapshots.snapshot_files import SnapshotFolder

_log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """The state before the log file that begins at `start.position`."""

    start: LogStart
    state: CapturedState


#: States that may wait to be saved; of more the oldest is dropped, and the log keeps its file.
TAKEN_COUNT_MAX = 4


class LogBeginning:
    """The saved states of one replica's log; used on the event loop's thread."""

    def __init__(self, log: FileLog, folder: SnapshotFolder, *, is_sent: bool = False) -> None:
        """`is_sent`: peers send a state if this replica's is lost."""
        self.log, self.folder, self._is_sent = log, folder, is_sent
        #: States that are not on disk yet, oldest first, and the position of the newest one taken.
        self._taken: list[Taken] = []
        self._taken_at = -1
        self._forgotten_before = log.first_position
        #: Newest entry whose state is on disk, -1 for none: the log up to it may be deleted.
        self.snapshot_index = self._newest()

    def _newest(self) -> Index:
        inside = (self.log.first_position, self.log.end_position)
        places = [p for p in self.folder.positions() if inside[0] <= p < inside[1]]
        for place in reversed(places if self.log.last != self.log.anchor else ()):
            index = self._index_at(place)
            if index is not None:
                return Index(index - 1)
        return self.log.anchor.index

    def _index_at(self, position: int) -> Index | None:
        """Index of the record at `position`; None if there is none, or it is damaged.

        No entry from a damaged record on is applied before it is repaired.
        """
        if self.log.end_position <= position:
            return None
        try:
            return self.log.index_at(position)
        except StoreDamaged:
            return None

    def restore(self, state: AppliedState) -> None:
        """Give a fresh state the effects of the deleted entries, if the saved state is not lost.

        Otherwise it stays fresh and no entry is applied to it; raises StoreDamaged if no peer sends
        a state. A state of a version without owners of producer ids is accepted as it is, because
        the owners cannot be found out again.
        """
        if self.log.start is None:
            return
        try:
            saved = self.folder.load(self.log.start)
        except StoreDamaged as error:
            if not self._is_sent:
                raise
            _log.warning("%s; this node starts without and asks its leader for one", error)
        else:
            state.restore(saved, lambda *_: True, ownerless=True)

    def fit_chunk(self, first: Index, state: AppliedState, count_max: int) -> int:
        """How many entries a chunk from `first` on may have: chunks end where log files do.

        If `first` begins a file, takes the state; only once, however often that chunk is tried.
        """
        file_size = self.log.file_size
        boundary = state.position - state.position % file_size + file_size
        following = self._index_at(boundary)
        if following == first:
            if boundary > self._taken_at:
                with contextlib.suppress(StoreDamaged):  # the record before: then no state is taken
                    self._take(Taken(self.log.start_at(boundary), state.capture()))
            following = self._index_at(boundary + file_size)
        return count_max if following is None else min(count_max, following - first)

    def _take(self, taken: Taken) -> None:
        self._taken_at = taken.start.position
        self._taken.append(taken)
        del self._taken[:-TAKEN_COUNT_MAX]

    def begin_save(self) -> Callable[[], None]:
        """Work that writes the taken states to disk; in any thread, before the next checkpoint.

        A state for which the disk has no space is tried again at the checkpoint after that.
        """
        self._forget_saved()
        taken = tuple(self._taken)

        def save() -> None:
            for start, state in taken:
                self.folder.save(start, state.encode())
                self.snapshot_index = start.index

        return save

    def _forget_saved(self) -> None:
        self._taken = [it for it in self._taken if it.start.index > self.snapshot_index]

    def fit_queue(self, queue: ConsumeQueue) -> None:
        """Let the queue begin where the log does, which may have been shortened just now.

        Its files stay until `forget_deleted`, since a sync of them may be under way.
        """
        if self.log.first_position > self._forgotten_before:
            queue.correct_min_offset(self.log.first_position)

    def forget_deleted(self, files: DerivedFiles) -> None:
        """Drop entries of queues and index for deleted files; no sync of them may be under way.

        Also drops states that the last save put on disk from memory.
        """
        self._forget_saved()
        if self.log.first_position > self._forgotten_before:
            self._forgotten_before = self.log.first_position
            files.drop_before(self._forgotten_before)

    def begin_queues(self, state: AppliedState, files: DerivedFiles) -> None:
        """Let queues without a message begin at their end; call after `restore` (S9, R18)."""
        for topic, queue_id, end in state.all_ends():
            queue = files.queues.queue(topic.encode(), queue_id)
            if queue.max_offset == 0:
                queue.begin_at(end)
