"""States of a machine on disk, so that the log behind them can go and a restart need not replay it.

    an entry begins a log file ─► the state before it is captured ─► encoded and written by a thread
    it is a Freezing           ─► taken in pieces, turn by turn of the loop, while entries wait
    written                    ─► the log loses its files below, but for a margin ─► trim
    state_seconds are over     ─► the state behind the last applied entry, the same way; no trim
    start                      ─► the newest state whose place the log still has; then the rest
    a leader's state           ─► the machine is given it in a thread, as at a start: restoring.py
    no usable one              ─► from the log's beginning, or asked of the leader if that is gone

One state is written at a time, at a pace; a file that begins meanwhile is passed over and told, so
a slow disk delays the next state and no command. Nothing is deleted before the state that it led to
is on disk. A state by time stands anywhere in the log, which cannot be cut there: it only makes a
restart short.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sized
from itertools import chain
from typing import Any, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.content import size_of
from commitlog.files.system import Buffer
from dledger.core.types import Index
from dledger.errors import NodeFailed, SnapshotFailed
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.machine.applier import Applier
from dledger.machine.freezing import Freezing
from dledger.machine.keeping import Keeping, Kept, behind, kept_place
from dledger.machine.restoring import Restored, Restoring
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import State, captured, in_parts, say
from dledger.machine.states_status import StatesStatus
from dledger.runtime.complaints import Complaints
from dledger.runtime.owned import Owned
from dledger.runtime.parts import Parts
from dledger.snapshots.pace import Pace
from dledger.snapshots.snapshot import STATE_BYTES_MAX
from dledger.snapshots.snapshot_files import Saved, SnapshotFolder
from dledger.snapshots.state_file import Joined, StateFile

_log = logging.getLogger(__name__)

#: Between two tries to delete: the flush mark has to pass the place first, in both its slots.
TRIM_SECONDS = 0.5
#: At the end of a node, a state that takes longer to be written is left behind.
STATE_SECONDS_MAX = 60.0


#: Writes a state, in a thread.
Save = Callable[[LogStart, Saved, Pace], None]


class Newest(NamedTuple):
    """The newest state that can be read, and where the log goes on behind it."""

    start: LogStart
    state: StateFile


def newest_state(
    log: FileLog, folder: SnapshotFolder, group: Sized, progress: bytes | None
) -> Newest | Kept | None:
    """Read it, in any thread before the log is used; None: there is none.

    `group`: other members may send one; `progress`: of the machine's files. Raises StoreDamaged
    when the log's beginning is gone and its state too, and no other has it; StateMachineFailed.
    """
    kept = kept_place(log, progress)
    if kept is not None:
        return kept
    start, inside = log.start, range(log.first_position + 1, log.end_position)
    places = [place for place in folder.positions() if place in inside]
    recent = _recent_state(log, folder, max(places, default=log.first_position))
    if recent is not None:
        return recent
    for place in reversed(places):
        with contextlib.suppress(StoreDamaged, KeyError):
            return Newest(begins := log.start_at(place), folder.find(begins))
    if start is None:
        return None
    try:
        return Newest(start, folder.find(start))
    except StoreDamaged:
        if len(group) == 1:
            raise
        return None


def _recent_state(log: FileLog, folder: SnapshotFolder, position: int) -> Newest | None:
    """The state by time, if the log has its last entry, and has it behind `position`.

    The log may lack it: an entry that a majority has is applied before it is on disk here. And
    `find_recent` compares the entry with that of the log.
    """
    with contextlib.suppress(StoreDamaged):
        found = folder.recent()
        if found is not None and log.first_index <= found.index <= log.last.index:
            start = behind(log, found.index)
            if start.position > position:
                return Newest(start, folder.find_recent(start))
    return None


class Saving:
    """Saves the states of one node; used on its event loop's thread."""

    def __init__(
        self,
        parts: Parts,
        applier: Applier[Any, Any],
        owned: Owned,
        settings: MachineSettings,
        trim: Callable[[int], bool],
        failed: Callable[[SnapshotFailed], None],
    ) -> None:
        """`trim`: deletes the log below a position, or returns False; `failed`: is told of errors,
        after which the log keeps its entries until the next file begins."""
        self._log, self._folder, self._applier = parts.log, parts.snapshots, applier
        self._keeping = Keeping(parts.log, applier)
        self.restoring = Restoring(applier, self._keeping, owned, self._keep_fail)
        self._found: Newest | Kept | None = None
        self._restored: Restored | None = None
        self._owned, self._trim, self._failed = owned, trim, failed
        self._margin = settings.margin_files * parts.log.file_size
        self._seconds = settings.state_seconds
        self._pace = Pace(settings.state_bytes_per_second, log_end=lambda: parts.log.end_position)
        self._complaints = Complaints(_log, owned.time)
        self._writing: asyncio.Future[None] | None = None
        #: A state that is taken in pieces: nothing is applied until it is whole.
        self._freezing: Freezing[Any] | None = None
        #: The first entry of a file, before which a state was captured, or failed to be.
        self._met = Index(-1)
        self._timer: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._saved_index = -1
        self._closed = False
        #: Where the newest state stands, -1 for none.
        self.saved_position = -1

    def status(self) -> StatesStatus:
        """The newest state, and whether another one is due or under way."""
        is_due = self._due is not None
        return StatesStatus(self._saved_index, self.saved_position, is_due, self._is_writing)

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def look(self, group: Sized, progress: bytes | None) -> None:
        """At a start, in its thread: find the newest state and give it to the machine.

        Arguments and errors are those of `newest_state`.
        """
        self._found = found = newest_state(self._log, self._folder, group, progress)
        if isinstance(found, Newest):
            self._restored = self.restoring.give(found.start, found.state)

    def begin(self) -> Index | None:
        """At a start, behind `look`: the last index that the machine holds; None: no state.

        Raises StateMachineFailed.
        """
        found, self._found = self._found, None
        restored, self._restored = self._restored, None
        if found is None:
            return None
        if isinstance(found, Kept):
            self._keeping.resume(found)
        elif restored is not None:
            self.restoring.adopt(restored)
        self.saved_position, self._saved_index = found.start.position, found.start.index
        return found.start.index

    def piece(self, first: Index, last: Index) -> Index:
        """The last entry that may be applied with `first`: no piece goes beyond its log file.

        The state is captured when `first` begins a file. The entry before `first`, so none, while a
        state is taken in pieces.
        """
        log = self._log
        if self._freezing is not None:
            return Index(first - 1)
        self._await_due(first)
        try:
            position = log.position_of(first)
            file_position = position - position % log.file_size
            if position == file_position and first > log.first_index and first != self._met:
                self._met = first
                self._capture(position)
                if self._freezing is not None:
                    return Index(first - 1)
            behind = file_position + log.file_size
            return (
                last if log.end_position <= behind else min(last, Index(log.index_at(behind) - 1))
            )
        except StoreDamaged:  # of the place, which is repaired; this file has no state then
            return last

    def _await_due(self, index: int) -> None:
        """Have a state captured in `state_seconds`, if the saved one lacks entry `index`."""
        if self._seconds and self._due is None and index > self._saved_index and not self._closed:
            self._due = self._owned.call_later(self._seconds, self._capture_recent)

    def _capture_recent(self) -> None:
        self._due = None
        applier = self._applier
        if self._closed or not applier.is_whole or self._is_writing:
            return  # the end of what is being written asks again
        if applier.applied > self._saved_index:
            if self._keeping.is_used:
                if self._keep():
                    self._saved_index = applier.applied
                self._await_due(applier.applied)
                return
            with contextlib.suppress(StoreDamaged):  # as in `piece`; the next time comes
                self._begin(behind(self._log, applier.applied), self._folder.save_recent)

    def _capture(self, position: int) -> None:
        if not self._is_writing:
            self._begin(self._log.start_at(position), self._save_proven)
        else:
            self._complaints.say(
                "passed over",
                "no state is saved where the log file %s begins: the one before is still written; "
                "raise state_bytes_per_second or data_file_size where that goes on",
                position,
                level=logging.INFO,
            )

    def _keep(self) -> bool:
        """Is all that was applied in the machine's own files now? True without such files, too."""
        try:
            return self._keeping.keep()
        except Exception as error:  # by the user's code, or of the place, which is repaired
            self._keep_fail(error)
            return False

    def _keep_fail(self, error: Exception) -> None:
        self._save_fail(f"keep raised {say(error)}")

    def _begin(self, start: LogStart, save: Save) -> None:
        self._keep()
        head = self._applier.head()
        try:
            state = captured(self._applier.machine.snapshot())
        except Exception as error:  # by the user's code; the log has all that it had
            self._save_fail(f"snapshot raised {say(error)}")
            self._await_due(start.index)
            return
        self._writing = self._owned.loop.create_future()
        if isinstance(state, Freezing):
            self._freezing = state
            self._freeze(state, start, head, save)
        else:
            self._write(start, head, state, save)

    def _freeze(self, state: Freezing[Any], start: LogStart, head: bytes, save: Save) -> None:
        """Take pieces of the state in this turn of the loop, and have it written if it is whole."""
        if self._freezing is not state:  # the node has ended
            return
        try:
            if not state.go_on():
                self._owned.call_soon(self._freeze, state, start, head, save)
                return
        except Exception as error:  # as in `_begin`
            self._freezing = None
            self._end_writing()
            self._save_fail(f"snapshot raised {say(error)}")
            self._await_due(self._applier.applied)
            return
        self._freezing = None
        self._write(start, head, state, save)

    def _end_writing(self) -> None:
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)

    def _save_proven(self, start: LogStart, parts: Saved, pace: Pace) -> None:
        self._folder.save(start, parts, pace)
        # Here: the log's thread, which deletes, has no time for it. With rests, as nodes of one
        # machine that read a GiB at once take its processors from commands.
        self._folder.prove(start, pace)

    def _write(
        self, start: LogStart, head: bytes, state: State | Callable[[], State], save: Save
    ) -> None:
        """Begin to write a state, in a thread."""
        # Its words alone: by its frames an exception has the state, and this one would have itself,
        # so that memory which commands keep for the state would wait for the garbage collector.
        error = ""

        def work() -> None:
            nonlocal error
            self._pace.begin()
            try:
                with in_parts(state) as parts:
                    if isinstance(parts, Iterator):
                        save(start, _bounded(chain([head], parts)), self._pace)
                        return
                    whole = Joined([head], parts)
                    if (size := size_of(whole)) > STATE_BYTES_MAX:
                        raise ValueError(f"it has {size} bytes and {STATE_BYTES_MAX} are allowed")
                    save(start, whole, self._pace)
            except Exception as raised:  # as above, or the disk's
                error = say(raised)

        def done() -> None:
            self._end_writing()
            if error:
                self._save_fail(error)
            else:
                self._written(start)
            self._await_due(self._applier.applied)

        self._owned.in_thread(work, done)

    def _written(self, start: LogStart) -> None:
        self._saved_index = start.index
        if start.position % self._log.file_size == 0:
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
        """No more deletions; wait for states that are being written or restored. False: one is.

        Until then its folder is this process's: who opened it anew would find files come and go.
        """
        self._closed = True
        self._pace.hurry()
        if self._freezing is not None:  # the log has all that leads to it
            self._freezing = None
            self._end_writing()
        for timer in (self._timer, self._due):
            if timer is not None:
                timer.cancel()
        if not await self.restoring.ended(STATE_SECONDS_MAX):
            return False
        self._keep()
        if self._writing is None or self._writing.done():
            return True
        _, left = await asyncio.wait({self._writing}, timeout=STATE_SECONDS_MAX)
        return not left


def _bounded(parts: Iterator[Buffer]) -> Iterator[Buffer]:
    """The parts, counted in bytes as they come. Raises ValueError behind the allowed ones."""
    size = 0
    for part in parts:
        size += len(part)
        if size > STATE_BYTES_MAX:
            raise ValueError(f"it has more than the {STATE_BYTES_MAX} bytes that are allowed")
        yield part
