"""A simulated machine that runs processes of a machine under test, of a former release at first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

from chaos.sim.disk import CutPolicy
from chaos.sim.node import SimNode
from chaos.sim.observer import describe
from chaos.sim.scheduler import Scheduler
from chaos.sim.storage import Storage
from chaos.testing.log_book import LogBook, is_shared
from chaos.testing.noted import Applied
from chaos.testing.process import MachineProcess
from chaos.testing.subject import MakeMachine
from commitlog.files.system import Buffer
from dledger.core.types import NodeId, Term
from dledger.errors import MalformedFrame
from dledger.machine.entries import LEVEL
from dledger.replica.envelope import STAMP_AT, noop_body
from dledger.replica.replica import Replica
from dledger.snapshots.prefix import Prefix

#: Milliseconds since 1970 at the beginning of a run, and how far nodes' wall clocks stand apart.
BEGIN_MS, SKEW_MS = 1_700_000_000_000, 700


def _due_at(replica: Replica, now: float) -> float:
    """Entries that are left wait for a turn of the loop (`MachineProcess.turned`)."""
    return replica.deadline()


def _call_due(replica: Replica, now: float) -> None:
    replica.timer(now)


class MachineNode(SimNode):
    """One machine of a run.

    Attributes:
        make: makes the machine under test; set before the first start, as are these three:
        book: the run's.
        group_nodes: all machines of the run.
        upgraded_at: until then its processes are of feature level 0.
        lives: what each process of the node has applied, with the number that it began behind; a
            state of a leader begins another life.
    """

    make: MakeMachine
    book: LogBook
    group_nodes: Sequence[MachineNode]
    noop_stamp_at = STAMP_AT
    due_at, call_due = staticmethod(_due_at), staticmethod(_call_due)

    def __init__(self, index: int, scheduler: Scheduler, *arguments: Any, **named: Any) -> None:
        self.lives: list[tuple[int, list[Applied]]] = []
        self.upgraded_at = 0.0
        super().__init__(index, scheduler, *arguments, **named)
        self.recover = self._recover  # type: ignore[assignment]
        self.noop_body = self._noop  # type: ignore[assignment]
        self.prefix_of = self._prefix  # type: ignore[assignment]
        self.end_threads = self._end_threads

    @property
    def wall_ms(self) -> int:
        """The node's wall clock."""
        return BEGIN_MS + round(self.scheduler.now * 1000) + self.index * SKEW_MS

    @property
    def process(self) -> MachineProcess | None:
        """The one that runs; None while it is down."""
        return cast("MachineProcess | None", self.machine) if self.up else None

    def levels(self) -> dict[NodeId, int]:
        """Feature levels of the others; 0 of one that is down."""
        others = [node for node in self.group_nodes if node is not self]
        return {node.id: 0 if node.process is None else node.process.level for node in others}

    # -- processes ---------------------------------------------------------------------------------

    def _recover(self, _: object, storage: Storage, __: Random, ___: object) -> MachineProcess:
        level = LEVEL if self.scheduler.now >= self.upgraded_at else 0
        try:
            process = MachineProcess(self, storage, level)
        except Exception as error:  # by the user's code, as of a state that it cannot restore
            self.observer.violation("exception", f"{self.id}, at a start: {describe(error)}")
            raise
        self._begin_list(process)
        return process

    def _prefix(self, process: Any, *_: object) -> Prefix | None:
        return cast(MachineProcess, process).prefix()

    def _noop(self, term: Term) -> Buffer:
        return noop_body(self.id, term, self.wall_ms)

    def upgrade(self) -> None:
        """Stop the former release, and start this one, unless it is down."""
        if self.up:
            self.stop()
            self.start()

    def state_taken(self) -> None:
        """As of a `ProcessNode`: the commands that it applies from now on stand behind a state."""
        process = self.process
        assert process is not None
        self._begin_list(process)

    def _begin_list(self, process: MachineProcess) -> None:
        process.machine.applied = []
        self.lives.append((process.number, process.machine.applied))

    def crash(self, *, power: bool, policy: CutPolicy | None = None) -> None:
        """As of a SimNode."""
        if (process := self.process) is not None:
            self.book.overtaken += process.is_restoring
            self.book.ended_behind += process.is_behind
        super().crash(power=power, policy=policy)

    def _end_threads(self) -> None:
        if (process := self.process) is not None:
            self.step(process.ended)

    # -- what a process does -----------------------------------------------------------------------

    def _set_timer(self) -> None:
        """After each event: the process waits for a turn and is busy, as its event loop would."""
        super()._set_timer()
        if (process := self.process) is not None:
            process.turned()

    def in_process(self, process: object, action: Callable[[], object]) -> None:
        """Have this process do something, unless it has gone."""

        def act() -> None:
            if self.process is process:
                action()

        if self.process is process:
            self.step(act)

    def works(self, seconds: float) -> None:
        """The process applies for so long: all that comes in waits."""
        if self.backlog is None and not self.stopping:
            self.pause()
            self.scheduler.after(seconds, self._worked, self.boot)

    def _worked(self, boot: int) -> None:
        if self.boot == boot:
            self.resume()

    def committed(self, level: int, index: int, body: bytes) -> None:
        """A process of this level has applied an entry."""
        if difference := self.book.note(index, body):
            self.observer.violation("logs-differ", f"{self.id}: {difference}")
        if level < LEVEL and is_shared(body):
            self.observer.violation(
                "unreadable", f"{self.id} is of level {level} and entry {index} of another"
            )

    def forwarded(self, source: int, frame: bytes) -> None:
        """A FORWARD or its reply has come."""
        process = self.process
        if process is None:
            return

        def act() -> None:
            try:
                process.received(NodeId(f"n{source}"), frame)
            except MalformedFrame:
                assert self.network is not None
                self.network.cut_connection(source, self.index, 1)
            process.soon()

        self.in_process(process, act)
