"""Disk work of a replica: starts due work, handles its end. One piece of each kind at a time.

    log      fdatasync of what was written           ends as EntriesFlushed
    mark     the flush mark, at most 100 ms behind   (R1)
    hard     mark, then both hard-state slots        ends as HardStatePersisted (D1, R7)
    prepare  the next file of the log, ahead of use
    trim     delete the log's first files            ends as PrefixDropped
    snapshot keep a chunk of a state                 ends as SnapshotReceived

The shell runs the tasks in threads; everything here happens on the replica's own thread.
"""

from __future__ import annotations

from commitlog.files.system import is_out_of_space
from dledger.core import events as ev
from dledger.core.types import HardState
from dledger.log.port import HardStateStore, LogStore, SyncTask, WantedSpace
from dledger.replica.ports import Ports, SyncWork


class _MarkThenHardState:
    """The flush mark is on disk before a vote is (R1), then both hard-state slots (R7)."""

    def __init__(self, mark: SyncTask | None, hard: SyncTask | None) -> None:
        self.mark, self.hard = mark, hard

    def run(self) -> None:
        if self.mark is not None:
            self.mark.run()
        if self.hard is not None:
            self.hard.run()


def is_sent_again(work: SyncWork, error: BaseException | None) -> bool:
    """Is it a chunk of a state for which there was no space? Its leader sends it again."""
    return work.kind == "snapshot" and isinstance(error, OSError) and is_out_of_space(error)


class DiskWork:
    """Starts work on `ports`; `ended`, then `finish` when the shell reports its end."""

    def __init__(self, log: LogStore, hard: HardStateStore, ports: Ports) -> None:
        self._log, self._hard, self._ports = log, hard, ports
        self._wanted: tuple[int, HardState] | None = None
        self._busy = dict.fromkeys(("log", "mark", "hard", "prepare", "trim", "snapshot"), False)
        #: When `pump` must be called for the flush mark's sake, as the last `pump` found it.
        self.mark_due: float | None = None

    def want(self, sequence: int, state: HardState) -> None:
        """Save `state` when this turn ends; only the newest is saved."""
        self._wanted = (sequence, state)

    def pump(self, now: float) -> None:
        """Start due work."""
        busy = self._busy
        if not busy["log"]:
            task = self._log.begin_sync()
            if task is not None:
                self.start("log", task)
                self._prepare()
        if self._wanted is not None:
            self._save_hard_state()
        if busy["mark"] or busy["hard"]:
            self.mark_due = None  # its end pumps again
            return
        due = self._log.mark_deadline()
        if due is not None and due <= now:
            mark = self._log.begin_mark()
            if mark is not None:
                self.start("mark", mark)
                due = None
        self.mark_due = due

    def is_mark_due(self, now: float) -> bool:
        """Is it time for the flush mark? Of all disk work, that alone is due without an effect."""
        return self.mark_due is not None and self.mark_due <= now

    def is_busy(self, kind: str) -> bool:
        """Is a piece of this kind under way?"""
        return self._busy[kind]

    def ended(self, work: SyncWork) -> None:
        """The shell ran `work`, well or not."""
        self._busy[work.kind] = False

    def finish(self, work: SyncWork, *, closing: bool = False) -> ev.Event | None:
        """The event for the rules after `work` succeeded, or None. With `closing`, starts no work.

        Raises OSError.
        """
        if work.kind == "log":
            return ev.EntriesFlushed(self._log.finish_sync(work.task))
        if work.kind == "mark":
            self._log.finish_mark(work.task)
        elif isinstance(task := work.task, _MarkThenHardState):  # a file made ahead ends by itself
            return self._hard_state_saved(work, task, closing)
        return None

    def _hard_state_saved(
        self, work: SyncWork, task: _MarkThenHardState, closing: bool
    ) -> ev.Event | None:
        """Saved; but if a sync of the log ended meanwhile, the mark goes once more before a vote.

        That ends: a node that votes or stands takes no entries from a leader of an older term.
        """
        if task.mark is not None:
            self._log.finish_mark(task.mark)
        if task.hard is not None:
            self._hard.finish_save(task.hard)
        if not closing and self._mark_again(work.sequence):
            return None
        return ev.HardStatePersisted(work.sequence)

    def _mark_again(self, sequence: int) -> bool:
        """Is there more to mark, and is that under way? Then the vote waits for it (R1)."""
        mark = self._begin_mark()
        if mark is not None:
            self.start("hard", _MarkThenHardState(mark, None), sequence)
        return mark is not None

    def _begin_mark(self) -> SyncTask | None:
        return self._log.begin_mark() if self._log.mark_deadline() is not None else None

    def start(self, kind: str, task: SyncTask, sequence: int = 0) -> None:
        """One at a time of each kind."""
        self._busy[kind] = True
        self._ports.start_sync(SyncWork(kind, task, sequence))

    def start_any(self, kind: str, task: SyncTask | None) -> bool:
        """Is there any? Then `start` it."""
        if task is not None:
            self.start(kind, task)
        return task is not None

    def _prepare(self) -> None:
        """Something was written, so a file may be more than half full: make the next one."""
        if not self._busy["prepare"]:
            ahead = self._log.begin_prepare()
            if ahead is not None:
                self.start("prepare", ahead)

    def make_space(self, wanted: WantedSpace) -> None:
        """There was none for these records: try once more, where the shell sees how it ends."""
        if not self._busy["prepare"]:
            self.start_any("prepare", self._log.space.begin(wanted))

    def _save_hard_state(self) -> None:
        """Save the newest wanted state, after the mark if one is due; one save at a time."""
        if self._wanted is None or self._busy["hard"] or self._busy["mark"]:
            return
        sequence, state = self._wanted
        self._wanted = None
        mark = self._begin_mark()
        task = _MarkThenHardState(mark, self._hard.begin_save(state))
        self.start("hard", task, sequence)
