"""States of a machine on disk, so that the log behind them can go and a restart need not replay it.

    an entry begins a log file ─► the state before it is captured ─► encoded and written by a thread
    written                    ─► the log loses its files below, but for a margin ─► trim
    start                      ─► the newest state whose place the log still has; then the rest
    no usable one              ─► from the log's beginning, or asked of the leader if that is gone

One state is written at a time; a file that begins meanwhile is passed over, so a slow disk delays
the next state and no command. Nothing is deleted before the state that it led to is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.content import size_of
from dledger.core.types import Index
from dledger.errors import NodeFailed, SnapshotFailed
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.machine.applier import Applier
from dledger.machine.state_machine import State, captured, parts_of
from dledger.runtime.owned import Owned
from dledger.snapshots.snapshot_files import STATE_BYTES_MAX, SnapshotFolder

#: Between two tries to delete: the flush mark has to pass the place first, in both its slots.
TRIM_SECONDS = 0.5
#: At the end of a node, a state that takes longer to be written is left behind.
STATE_SECONDS_MAX = 60.0


class Newest(NamedTuple):
    """The newest state that can be read, and where the log goes on behind it."""

    start: LogStart
    state: bytes


def newest_state(log: FileLog, folder: SnapshotFolder, has_peers: bool) -> Newest | None:
    """Read it, in any thread before the log is used; None: there is none.

    `has_peers`: they may send one. Raises StoreDamaged when the log's beginning is gone and its
    state too, and nobody else has it.
    """
    start, inside = log.start, range(log.first_position + 1, log.end_position)
    for place in reversed([place for place in folder.positions() if place in inside]):
        with contextlib.suppress(StoreDamaged, KeyError):
            return Newest(begins := log.start_at(place), folder.load(begins))
    if start is None:
        return None
    try:
        return Newest(start, folder.load(start))
    except StoreDamaged:
        if not has_peers:
            raise
        return None


class Saving:
    """Saves the states of one node; used on its event loop's thread."""

    def __init__(
        self,
        log: FileLog,
        folder: SnapshotFolder,
        applier: Applier[Any, Any],
        owned: Owned,
        margin_files: int,
        trim: Callable[[int], bool],
        failed: Callable[[SnapshotFailed], None],
    ) -> None:
        """`trim`: deletes the log below a position, or returns False; `failed`: is told of errors,
        after which the log keeps its entries until the next file begins."""
        self._log, self._folder, self._applier = log, folder, applier
        self._owned, self._trim, self._failed = owned, trim, failed
        self._margin = margin_files * log.file_size
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        #: Where the newest state stands, -1 for none.
        self.saved_position = -1

    def restore(self, newest: Newest) -> Index:
        """Give the machine this state; the last index that it holds.

        Raises StateMachineFailed when the machine refuses it.
        """
        self._applier.load(newest.state, newest.start.index)
        self.saved_position = newest.start.position
        return newest.start.index

    def piece(self, first: Index, last: Index) -> Index:
        """The last entry that may be applied with `first`: no piece goes beyond its log file.

        The state is captured when `first` begins a file.
        """
        log = self._log
        try:
            position = log.position_of(first)
            file_position = position - position % log.file_size
            if position == file_position and first > log.first_index:
                self._capture(position)
            behind = file_position + log.file_size
            return (
                last if log.end_position <= behind else min(last, Index(log.index_at(behind) - 1))
            )
        except StoreDamaged:  # of the place, which is repaired; this file has no state then
            return last

    def _capture(self, position: int) -> None:
        if self._writing is not None and not self._writing.done():
            return
        start = self._log.start_at(position)
        head = self._applier.head()
        try:
            state = captured(self._applier.machine.snapshot())
        except Exception as error:  # by the user's code; the log has all that it had
            self._save_fail(f"snapshot raised {type(error).__name__}: {error}")
            return
        self._writing = self._owned.create_task(self._write(start, head, state))

    async def _write(
        self, start: LogStart, head: bytes, state: State | Callable[[], State]
    ) -> None:
        def write() -> None:
            parts = [head, *parts_of(state)]
            if (size := size_of(parts)) > STATE_BYTES_MAX:
                raise ValueError(f"it has {size} bytes and {STATE_BYTES_MAX} are allowed")
            self._folder.save(start, parts)
            self._folder.prove(start)  # here: the log's thread, which deletes, has no time for it

        try:
            await asyncio.to_thread(write)
        except Exception as error:  # as above, or the disk's
            self._save_fail(f"{type(error).__name__}: {error}")
            return
        self.saved_position = start.position
        self._delete()

    def _save_fail(self, detail: str) -> None:
        self._failed(SnapshotFailed(f"the state could not be written: {detail}"))

    def _delete(self) -> None:
        """Try until the log begins where it may, or the node has stopped."""
        first, newest = self._log.first_position, self.saved_position - self._margin
        places = [place for place in self._folder.positions() if first < place <= newest]
        if not places or self._closed:
            return
        try:
            self._trim(places[-1])
        except NodeFailed:  # said already; the state is for the next start
            return
        except StoreDamaged as damaged:
            self._save_fail(str(damaged))
            return
        self._timer = self._owned.call_later(TRIM_SECONDS, self._delete)

    async def ended(self) -> bool:
        """No more deletions; wait for a state that is being written. False: it still is.

        Until then its folder is this process's: who opened it anew would find files come and go.
        """
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is None:
            return True
        _, left = await asyncio.wait({self._writing}, timeout=STATE_SECONDS_MAX)
        return not left
