"""The beginning of a replica's log: deletes it, sends its state to a peer, takes a peer's state.

    delete    snapshot at a file's beginning on disk ─► files below it go (a thread) ─► core
    send      the state at our first index, chunk by chunk, to whom the core names
    receive   each chunk on disk (a thread) ─► core ─► install: the log, then the state machine
    take      one whose log goes on behind it: delete below, then the state machine

The rules are the core's (core/snapshots.py); bytes, files and the state machine are met here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from commitlog.errors import StoreDamaged
from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import Configuration
from dledger.core.messages import SnapshotChunk
from dledger.core.types import Index, NodeId
from dledger.errors import RangeRejected
from dledger.log.file_log import FileLog
from dledger.log.log_prefix import TrimTask
from dledger.log.log_start import LogStart
from dledger.log.port import SyncTask
from dledger.membership.members import encode_configuration
from dledger.snapshots.snapshot import Part, Snapshot, is_possible
from dledger.snapshots.snapshot_files import SnapshotFolder

#: Kinds of disk work that end here.
PREFIX_WORK = frozenset({"trim", "snapshot"})
#: Gives the state machine another state: that of the log up to the entry before its beginning.
#: The state is bytes, or a `StateFile` where `Prefix` is told so; see there.
Restore = Callable[[LogStart, Any], None]


class ReceiveTask:
    """Keep one chunk; then `offset` bytes are on disk, `whole` if all are. Raises OSError.

    `proves`: read a whole one here, so that the replica's thread need not.
    """

    def __init__(self, folder: SnapshotFolder, message: SnapshotChunk, *, proves: bool) -> None:
        self._folder, self.message, self._proves = folder, message, proves
        snapshot = Snapshot(*message.anchor, message.chain_crc, message.crc, message.size)
        # The receive buffer is used again: the bytes are copied.
        self._part = Part(snapshot, message.offset, bytes(message.data or b""))
        self.offset, self.whole = 0, False

    def run(self) -> None:
        """Writes the chunk, durably, if it is the next one; sets `offset` and `whole`."""
        self.offset, self.whole = self._folder.receive(self.message.position, self._part)
        if self.whole and self._proves:
            try:
                self._folder.prove(_start_of(self.message))
            except StoreDamaged:  # since it was joined: it is sent anew
                self.offset, self.whole = 0, False


class _TrimTask:
    """Delete the log's files, then the states at places that are gone with them."""

    def __init__(self, log: TrimTask | None, folder: SnapshotFolder, position: int) -> None:
        self.log, self._folder, self._position = log, folder, position

    def run(self) -> None:
        if self.log is not None:  # else the log begins there already
            self.log.run()
            if not self.log.done:
                return
        self._folder.drop_before(self._position)


class Prefix:
    """One replica's; used on its thread, tasks run elsewhere. Raises OSError when made."""

    def __init__(
        self, log: FileLog, folder: SnapshotFolder, restore: Restore, *, by_file: bool = False
    ) -> None:
        """`by_file`: `restore` takes a `StateFile`, which a thread reads piece by piece; then
        `Replica.restored` is called. Else the state machine has the state when it returns.
        """
        self._state = folder.found if by_file else folder.load
        self.restores_later = by_file
        self._log, self.folder, self._restore = log, folder, restore
        #: Peers that were sent the whole state at a position, and did not ask for it again.
        self._sent: set[tuple[NodeId, int]] = set()
        self._taken: LogStart | None = None
        self._going = 0  # states below this position are just being deleted
        folder.drop_half_made()
        if log.start is not None:  # the process may have died between its files and their states
            folder.drop_before(log.start.position)

    def lacks_state(self, applied: Index) -> bool:
        """True if the state machine has applied less than the log's beginning needs."""
        return self._log.start is not None and applied < self._log.start.index

    # -- delete ------------------------------------------------------------------------------------

    def begin_trim(
        self, position: int, commit: Index, configuration_at: Callable[[Index], Configuration]
    ) -> SyncTask | None:
        """Task that deletes the files below `position`; None when that cannot be done now.

        Nothing goes without the state that it led to on disk, nothing that is not flushed, and
        nothing that the rules do not know to be decided: after a start they hear of it again.
        """
        if not self._log.first_position < position < self._log.end_position:
            return None
        if position not in self.folder.positions():
            return None
        start = self._log.start_at(position)
        if start.index > commit:
            return None
        text = encode_configuration(configuration_at(start.index)).decode()
        return self._begin(self._log.start_at(position, text))

    def _begin(self, start: LogStart) -> SyncTask | None:
        self.folder.prove(start)
        task = self._log.begin_trim(start)
        if task is None:
            return None
        self._going = start.position
        return _TrimTask(task, self.folder, start.position)

    def finished(
        self, task: SyncTask, applied: Index, *, trimming: bool
    ) -> tuple[ev.Event | None, Index]:
        """The core's event after `task` succeeded, and the applied index then.

        `applied`: before. When more than that is gone the state machine is given the state that it
        led to. Raises StoreDamaged.
        """
        if not isinstance(task, _TrimTask):
            assert isinstance(task, ReceiveTask)
            return self._received(task, may_install=not trimming), applied
        self._going = 0
        start = self._log.start if task.log is None else self._log.finish_trim(task.log)
        if start is None:
            return None, applied  # no space; retention asks again
        if start.index > applied:
            self._restore(start, self._state(start))
        return ev.PrefixDropped(start.anchor), max(applied, start.index)

    # -- send --------------------------------------------------------------------------------------

    def chunk(self, effect: fx.SendSnapshot, sender: NodeId) -> SnapshotChunk | None:
        """The message that the core asks for; None when this log begins elsewhere, or soon does."""
        start = self._log.start
        if start is None or start.anchor != effect.anchor or start.position < self._going:
            return None
        sent = effect.to, start.position
        if (
            effect.offset == 0 and effect.size_max > 0 and sent in self._sent
        ):  # to that peer it was not right, or it is lost
            self._sent.discard(sent)
            self.folder.doubt(start.position)
        part = self.folder.part(start, effect.offset, effect.size_max)
        snapshot = part.snapshot
        if part.offset + len(part.data) == snapshot.size:
            self._sent.add(sent)
        return SnapshotChunk(
            sender,
            effect.term,
            effect.anchor,
            effect.configuration,
            part.offset,
            start.chain_crc,
            start.end,
            start.position,
            snapshot.size,
            snapshot.crc,
            part.data,
        )

    # -- receive -----------------------------------------------------------------------------------

    def begin_receive(self, message: SnapshotChunk) -> ReceiveTask:
        """Returns the task that keeps one chunk of the state that a leader sends."""
        return ReceiveTask(self.folder, message, proves=self.restores_later)

    def _received(self, task: ReceiveTask, *, may_install: bool) -> ev.SnapshotReceived:
        """A whole one waits while the log is being shortened; its leader asks again."""
        message = task.message
        whole = task.whole and may_install
        if whole:
            text = encode_configuration(message.configuration).decode()
            self._taken = _start_of(message, text)
        return ev.SnapshotReceived(message.anchor, message.configuration, task.offset, whole)

    def install(self, effect: fx.InstallSnapshot) -> None:
        """The log restarts, then the state machine. Raises OSError, StoreDamaged."""
        start = self._taken
        assert start is not None
        assert start.anchor == effect.anchor, "what was received last is installed"
        state = self._state(start)
        self._log.restart_at(start)
        self.folder.drop_before(start.position)
        self._restore(start, state)

    def begin_take(self) -> SyncTask | None:
        """Task that deletes the log up to the anchor of the state that was received last.

        None when that cannot be done yet. Nothing is deleted when it is our own anchor. Raises
        StoreDamaged.
        """
        start = self._taken
        assert start is not None
        if start.anchor == self._log.anchor:
            return _TrimTask(None, self.folder, start.position)
        return self._begin(start) if self._log.is_beginning(start) else None


def _start_of(message: SnapshotChunk, configuration: str = "") -> LogStart:
    """Where a log begins behind the state of a chunk."""
    where = message.chain_crc, message.end, message.position
    return LogStart(*message.anchor, *where, configuration)


def check_chunk(message: SnapshotChunk) -> None:
    """Before the rules hear of it. Raises RangeRejected: then its sender is not to be trusted."""
    data = message.data or b""
    snapshot = Snapshot(*message.anchor, message.chain_crc, message.crc, message.size)
    if not is_possible(snapshot, data, message.offset):
        raise RangeRejected(f"no snapshot has {len(data)} bytes at {message.offset}")
