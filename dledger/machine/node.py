"""ReplicatedNode: a state machine on this node's replica of the log.

    propose ─► Proposer ─► the leader: Leading ─► the log ─► Applier ─► machine.apply ─► result
       here       │ FORWARD (another node leads)              on every node
                  └────────────────────────────►
    read ─► the log: all that was acknowledged is applied here ─► fn()

One event loop runs it all but for files; a machine that takes long holds it up, which is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from commitlog.files.system import OS_FILES, FileSystem
from dledger.config import RaftConfig
from dledger.core.configuration import Configuration, Member
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import (
    DledgerError,
    EntryTooLarge,
    LogUsageError,
    NodeFailed,
    ProposalTimedOut,
    QueueFull,
    SnapshotFailed,
)
from dledger.log.log_start import LogStart
from dledger.machine import reading
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Applier, Results, Told
from dledger.machine.applying import Applying
from dledger.machine.changes import Changes
from dledger.machine.entries import HEAD_SIZE, LEVEL, Kind
from dledger.machine.keeping import kept_by
from dledger.machine.leading import Leading
from dledger.machine.proposer import Proposer
from dledger.machine.saving import Saving
from dledger.machine.sending import Sending, ends
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import ReplicatedStateMachine, has_snapshots
from dledger.machine.status import MachineStatus, status_of
from dledger.replica.request_ids import draw_first_id, numbers_from
from dledger.runtime.clock import Clock
from dledger.runtime.complaints import Complaints
from dledger.runtime.lifetime import Lifetime
from dledger.runtime.parts import Parts
from dledger.runtime.replicated_log import ReplicatedLog
from dledger.snapshots.state_file import StateFile
from dledger.wire.forwards import Forward, pack_forward, unpack_forward, unpack_reply
from dledger.wire.frames import Frame, FrameType

_log = logging.getLogger(__name__)

C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")

#: Commands whose time was over that can be asked for again.
LATE_MAX = 1000


class Consistency(enum.Enum):
    """How new a state a read sees.

    LINEARIZABLE: all that was acknowledged to any caller before; LOCAL: what this node has applied.
    """

    LINEARIZABLE = 0.0
    LOCAL = math.inf


class ReplicatedNode(Lifetime, Generic[C, R]):
    """One node of a group that runs `machine`. `async with` starts and stops it.

    Attributes:
        machine: the user's; change it by `propose` only.
        log: the replica below, for its status and its members.
        snapshot_error: why a state was not written last time that one was not; None: all were.
        leader_changes: the name of the leader, None while none is known: follow it by a function
            or a loop (changes.py).
        member_changes: the members of the group, as the newest entry that changed them has it.
        slow_applies: the newest turn of applying that took longer than `settings` allow.
    """

    def __init__(
        self,
        config: RaftConfig,
        machine: ReplicatedStateMachine[C, R],
        *,
        create: bool = False,
        settings: MachineSettings | None = None,
        files: FileSystem = OS_FILES,
        clock: Clock | None = None,
        extend: Callable[[Parts], Parts] | None = None,
    ) -> None:
        """`create`: format `config.data_dir` if there is none, for a program's first start.

        Leave it out once the group exists: a node whose folder was lost would begin anew, and only
        peers that have met it would refuse it (rule R6). `extend`: as of a ReplicatedLog
        (a host's `share`). Raises ValueError.
        """
        self.settings = settings or MachineSettings()
        self.settings.validate()
        self.machine, self.config, self._create = machine, config, create
        self._more = extend or (lambda parts: parts)
        self.log = ReplicatedLog(config, self, files=files, clock=clock, extend=self._extend)
        self.log.look = self._look
        self._owned = self.log.owned
        node = NodeId(config.node_id)
        agreement = Agreement(node, machine.compare_every, self._compare)
        self._applier = Applier(machine, agreement, self._told, self._results, self._voters)
        self._applying = applying = Applying(self.log, self._applier, self.settings)
        self._leading = Leading(self.log, self._applier, applying.refusal, applying.shared_max)
        self._new_number = numbers_from(draw_first_id())
        limits = self.settings.resend_seconds, LATE_MAX
        self._proposer = Proposer(node, 0, self._applier, _Ports(self), *limits)
        self._proposer.bytes_max = self.settings.proposed_bytes_max
        spared = self._owned.spared
        self.leader_changes = Changes[str | None](None, "the leader", spared)
        self.member_changes = Changes[tuple[Member, ...]]((), "the members", spared)
        self.slow_applies = self._applying.slow
        self._errors = Changes[DledgerError | None](None, "errors", spared)
        self._failure: NodeFailed | None = None
        self._saving: Saving | None = None
        self.snapshot_error: SnapshotFailed | None = None
        self._sending = Sending(self._proposer, self.log, lambda: self._failure is None)
        self._complaints = Complaints(_log, self._owned.time)

    # -- start and end ------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover the folder and take part. Raises as `ReplicatedLog.start`."""
        self._open_files()
        await self.log.start()
        self._owned.when_done(self.log.driver.failed, self._log_failed)
        self.log.driver.members_changed.append(self._members_changed)
        self._members_changed(self.log.driver.members)

    def _open_files(self) -> None:
        if self._create and not Path(self.config.data_dir).exists():
            ReplicatedLog.format(self.config)
        self._kept = kept_by(self.machine)

    async def close(self) -> None:
        """Leave the group cleanly; commands that wait end with OutcomeUnknown or NodeFailed."""
        self._sending.stop()
        self._fail(NodeFailed("this node was closed; start a new one on its folder"))
        await self.log.close()

    @property
    def failure(self) -> NodeFailed | None:
        """Why this node has stopped; None while it runs."""
        return self._failure

    # -- commands and reads ------------------------------------------------------------------------

    def propose(self, command: C, *, timeout: float | None = None) -> asyncio.Future[R]:
        """Have every node apply `command`; await the result of `apply` on this node.

        Any node will do, also while another is being elected: it is sent to the leader until it is
        applied, once, for `timeout` seconds (else `settings.propose_seconds`). Many may be on their
        way at once; those of one node are applied in the order of their calls, unless a fault has
        some of them sent again.

        Raises LogUsageError, EntryTooLarge, QueueFull, NodeFailed at once. The future raises
        CommandRefused (by the machine), NotLeader, MachineBehind (the leader's machine has too much
        to apply) and others that are certainly not done,
        ProposalTimedOut (time is over, it may have been applied: see `propose_again`),
        OutcomeUnknown (the node was closed), NodeFailed. A future that is cancelled takes no
        command back: it only is not sent again.
        """
        data = self._encode(command)
        if self._failure is not None or not self.log.is_open:
            self._check_running()
        loop = self._owned.loop
        future: asyncio.Future[R] = loop.create_future()
        seconds = self.settings.propose_seconds if timeout is None else timeout
        self._proposer.propose(
            Kind.COMMAND, data, ends(future), loop.time() + seconds, future.cancelled
        )
        self._sending.soon(may_be_now=True)
        return future

    def propose_again(
        self, error: ProposalTimedOut, *, timeout: float | None = None
    ) -> asyncio.Future[R]:
        """Await the result of a command that was late: `propose` on this node raised `error`.

        It is sent again under its number, so that it is applied once in all, however often it
        came. Raises as `propose`; OutcomeUnknown at once for one of another node, one that was
        asked for again already, and one behind which 1,000 others (or 64 MiB of others) were late
        or 32,768 proposed.
        """
        self._check_running()
        future: asyncio.Future[R] = self._owned.loop.create_future()
        seconds = self.settings.propose_seconds if timeout is None else timeout
        self._proposer.again(error, ends(future), self._now() + seconds, future.cancelled)
        self._sending.soon()
        return future

    def _encode(self, command: C) -> bytes:
        try:
            data = self.machine.encode(command)
        except (TypeError, ValueError, RecursionError) as error:
            raise LogUsageError(
                f"a command has no bytes ({error}); send what JSON has, or override encode"
            ) from error
        if len(data) + HEAD_SIZE > self.log.entry_size_max:
            raise EntryTooLarge(
                f"a command has {len(data)} bytes and {self.log.entry_size_max - HEAD_SIZE} are "
                "allowed; send less or raise entry_size_max on every node"
            )
        return data

    async def read(
        self,
        fn: Callable[[], T],
        *,
        consistency: Consistency = Consistency.LINEARIZABLE,
        staleness: float | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # ends with why it could not be read
    ) -> T:
        """The value of `fn()`, which looks at the state, changes it not and copies its findings.

        `staleness`: what was acknowledged in the last so many seconds may be missed, which costs
        one round to a majority in so many seconds, instead of one for each read. It waits for a
        state that is restored, and for a leader with a majority: raises NotLeader and others when
        there is none for `timeout` seconds (else `settings.propose_seconds`); NodeFailed.
        """
        self._check_running()
        seconds = self.settings.propose_seconds if timeout is None else timeout
        staleness = consistency.value if staleness is None else staleness
        await reading.read_barrier(self.log, staleness, seconds)
        if self._saving is not None:
            await self._saving.restoring.readable()
        self._check_running()
        return fn()

    def on_error(self, function: Callable[[DledgerError], object]) -> Callable[[], None]:
        """Have `function(error)` called when the node stops by itself, or a state was not written.

        NodeFailed and its kinds: this node has stopped; SnapshotFailed: it goes on. Called on the
        event loop. Returns a function that ends it.
        """
        return self._errors.subscribe(function)  # type: ignore[arg-type]  # never told None

    # -- looking -----------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Does this node lead, as far as it knows?"""
        return self.log.is_leader

    @property
    def leader(self) -> str | None:
        """The leader's name, as far as this node knows."""
        return self.log.leader

    @property
    def applied(self) -> int:
        """Highest index that the state holds, -1 for none."""
        return self._applier.applied

    def status(self) -> MachineStatus:
        """The work that waits for the machine, and its states; also once this node has stopped."""
        return status_of(self._applying, self._proposer, self._applier.number, self._saving)

    # -- StateMachine of the log -------------------------------------------------------------------

    def apply(self, first: Index, last: Index) -> Index:
        """Called by the log."""
        try:
            return self._applying.apply(first, last, self._saving)
        except NodeFailed as failure:
            self._failure = self._failure or failure
            raise

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Called by the log."""
        self._leading.role_changed()
        self._proposer.led_by(leader)
        self.leader_changes.tell(leader)
        if self._failure is None:
            self._sending.soon()

    # -- inside ------------------------------------------------------------------------------------

    def _extend(self, parts: Parts) -> Parts:
        self._proposer.incarnation = parts.member.incarnation
        parts = replace(parts, member=parts.member._replace(level=LEVEL))
        parts = replace(self._more(parts), forwarded=self._forwarded)
        if (saving := self._saving) is None:
            return parts
        parts = replace(parts, restore=self._state_sent, restores_files=True, ended=saving.ended)
        if (index := saving.begin()) is None:
            return parts
        self.log.state_is(index)
        return replace(parts, applied=index)

    def _look(self, parts: Parts) -> None:
        if has_snapshots(self.machine):
            calls = (lambda position: self.log.driver.trim(position)), self._snapshot_failed
            self._saving = Saving(parts, self._applier, self._owned, self.settings, *calls)
            self._saving.look(self.config.peers, self._kept)

    def _state_sent(self, start: LogStart, state: StateFile) -> None:
        """The leader has sent its state, as the log here ends before the leader's begins."""
        assert self._saving is not None
        driver = self.log.driver

        def taken() -> None:
            self.log.state_is(start.index)
            self._proposer.state_taken()
            self._sending.soon()
            driver.tell(driver.replica.restored)

        self._saving.restoring.take(start, state, taken)

    def _snapshot_failed(self, error: SnapshotFailed) -> None:
        self.snapshot_error = error
        self._complaints.say("snapshot", "%s: %s", self.config.node_id, error)
        self._errors.tell_all(error)

    def _members_changed(self, configuration: Configuration) -> None:
        self.member_changes.tell(configuration.members)

    def _forwarded(self, peer: NodeId, frame: Frame) -> None:
        if self._failure is not None:
            return
        if frame.type is FrameType.FORWARD_REPLY:
            self._proposer.answered(unpack_reply(frame), self._now())
            self._sending.set_timer()
        else:
            self._owned.run(self._leading.take, peer, unpack_forward(frame))

    def _told(self, told: Told) -> None:
        self._leading.gone(told)
        self._proposer.told(told)
        if self._proposer.queued_count:
            self._sending.soon()

    def _results(self, session: int, results: Results) -> None:
        self._leading.applied(session, results)
        self._proposer.applied(session, results)

    def _compare(self, results: bytes) -> None:
        ends_at = self._now() + self.settings.propose_seconds
        with contextlib.suppress(QueueFull):  # then the next window is compared
            self._proposer.propose(Kind.COMPARE, results, _ignore, ends_at)
            self._sending.soon()

    def _voters(self) -> tuple[NodeId, ...]:
        return self.log.driver.members.voters

    def _now(self) -> float:
        return self._owned.time()

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.log.driver  # noqa: B018  # raises NodeFailed when it was not started

    def _log_failed(self, failed: asyncio.Future[NodeFailed]) -> None:
        if not failed.cancelled():
            self._fail(failed.result())
            self._errors.tell_all(failed.result())

    def _fail(self, failure: NodeFailed) -> None:
        self._failure = self._failure or failure
        self._proposer.fail(self._failure)
        self.leader_changes.fail(self._failure)
        self.member_changes.fail(self._failure)
        self.slow_applies.fail(self._failure)
        if self._saving is not None:
            self._saving.restoring.may_read.set()  # waiting reads end with the failure


def _ignore(_: object, error: DledgerError | None) -> None:
    """Results that could not be compared are compared in the next window."""


class _Ports:
    """`ProposerPorts` of a node."""

    def __init__(self, node: ReplicatedNode[Any, Any]) -> None:
        self._node = node
        self.append = node._leading.append
        self.new_number = node._new_number

    def forward(self, leader: NodeId, forward: Forward) -> bool:
        return self._node.log.driver.transport.forward(leader, pack_forward(forward))
