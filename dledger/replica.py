"""One replica without a shell: the core's effects carried out on storage and ports, in order.

No sockets, threads, clock or asyncio in here. `dledger.runtime` drives it with real ones and
`chaos.sim` with virtual ones, so the simulator judges the shipping code.

    events in    receive · propose · timer · sync_done · disconnected · transfer · read_index
    ports out    send(peer, message) · start_sync(work) · the state machine's apply / role_changed

Order within one event: log writes, then sends (those that reveal a term or vote are kept back until
it is on disk), then apply, then answers; at the end one sync is started for all that was written.
Any error of the disk, any damage and any broken safety rule stops the replica for good (D5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from commitlog.errors import StoreError
from commitlog.files import Buffer
from commitlog.record import HEADER_SIZE
from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.config import CoreConfig
from dledger.core.messages import AppendEntries, Message
from dledger.core.node import RaftNode
from dledger.core.replication import SafetyViolation
from dledger.core.status import NodeStatus
from dledger.core.types import NO_INDEX, Index, NodeId, Reason, Role, Term
from dledger.disk_work import DiskWork
from dledger.errors import (
    DledgerError,
    EntryTooLarge,
    LogUsageError,
    NodeFailed,
    NotLeader,
    OutcomeUnknown,
    QueueFull,
    RangeRejected,
    Transferring,
)
from dledger.ports import Ports, Proposal, StateMachine, SyncWork
from dledger.storage.port import HardStateStore, LogStore, ReceivedRange

__all__ = ["Ports", "Proposal", "Replica", "StateMachine", "SyncWork"]


class Replica:
    """Core, storage and state machine of one group on one node; see the module's text.

    `noop_body(term)` makes the body of the entry that opens a leadership: a real message of an
    internal topic, so that Java can read past it; with its stamp offset (store.md 1.1, field 7).
    """

    def __init__(
        self,
        config: CoreConfig,
        log: LogStore,
        hard: HardStateStore,
        machine: StateMachine,
        ports: Ports,
        *,
        noop_body: Callable[[Term], Buffer],
        jitter: Callable[[], float],
        now: float,
        applied: Index = NO_INDEX,
        noop_stamp_at: int = 28,
    ) -> None:
        self.log, self.machine, self.applied = log, machine, applied
        self._disk, self._ports = DiskWork(log, hard, ports), ports
        self._noop_body, self._noop_stamp_at = noop_body, noop_stamp_at
        runs = log.term_runs()
        self.node = RaftNode(
            config, hard.state, runs, log.flushed, now, jitter, first=log.first_index
        )
        self._now = now
        self._effects: deque[fx.Effect] = deque()
        self._running = False
        self._proposals: deque[Proposal] = deque()
        self._refused: DledgerError | None = None
        self._held: deque[tuple[int, NodeId, Message]] = deque()
        self._sent: tuple[object, AppendEntries] | None = None
        self._hard_persisted = 0
        self._reads: dict[int, Callable[[DledgerError | None], None]] = {}
        self._reads_ready: list[tuple[Index, Callable[[DledgerError | None], None]]] = []
        self._transfers: dict[int, Callable[[DledgerError | None], None]] = {}
        self._next_id = 1
        self.failure: NodeFailed | None = None
        self._stopped = False

    # -- events in -------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin; call once, before anything else."""
        self._now = now
        self._run(self.node.start(now))
        self._pump()

    def receive(self, message: Message, now: float) -> None:
        """A peer's message. Raises RangeRejected when its bytes are not what they claim to be.

        Then nothing happened here; the shell closes the connection that it came on.
        """
        if (
            isinstance(message, AppendEntries)
            and self.failure is None
            and (message.size or message.last != message.prev.index)
        ):
            message = _with_data(message, self.log.check_range(_received(message)))
        self._handle(ev.MessageReceived(message), now)

    def timer(self, now: float) -> None:
        """`deadline()` has come; harmless at any other time."""
        self._handle(ev.TimerFired(), now)

    def disconnected(
        self, peer: NodeId, now: float, *, bulk: bool = True, control: bool = True
    ) -> None:
        """A connection to or from `peer` broke."""
        self._handle(ev.PeerDisconnected(peer, bulk, control), now)

    def propose(self, proposal: Proposal, now: float) -> None:
        """Write the bodies as entries now, or raise a `NotDone`; `done` tells how it ended.

        When this returns, `first`, `last`, `term` and `positions` are filled. When it raises,
        nothing was written and `done` is not called.
        """
        assert not self._running, "propose is not called from inside apply or done"
        assert proposal.bodies, "an empty proposal says nothing"
        self._check_sizes(proposal)
        size = sum(map(len, proposal.bodies)) + HEADER_SIZE * len(proposal.bodies)
        self._refused = None
        self._handle(ev.ProposalReceived(len(proposal.bodies), size, proposal), now)
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def read_index(self, ready: Callable[[DledgerError | None], None], now: float) -> None:
        """Call `ready(None)` when a linearizable read may be served from what is applied here."""
        read_id = self._new_id()
        self._reads[read_id] = ready
        self._handle(ev.ReadRequested(read_id), now)

    def transfer(
        self, to: NodeId | None, done: Callable[[DledgerError | None], None], now: float
    ) -> None:
        """Hand leadership to `to` (None: the best follower)."""
        transfer_id = self._new_id()
        self._transfers[transfer_id] = done
        self._handle(ev.TransferRequested(to, transfer_id), now)

    def sync_done(self, work: SyncWork, error: BaseException | None, now: float) -> None:
        """Work given to `start_sync` has ended."""
        self._now = now
        self._disk.ended(work)
        if work.kind == "prepare":
            return  # when it failed, the append that needs the file tries again and says why
        if self._stopped and error is None:
            self._disk.finish(work, closing=True)  # the rules do not hear of it any more
        if self.failure is not None:
            return
        if error is not None:
            self._fail(f"the disk refused a {work.kind} sync: {error}")
            return
        try:
            self._finish(work)
        except (OSError, StoreError, SafetyViolation) as failed:
            self._fail(str(failed))
            return
        self._pump()

    def deadline(self) -> float:
        """When `timer` is due, in the caller's seconds."""
        if self.failure is not None:
            return float("inf")
        mark = self._disk.mark_due()
        core = self.node.deadline()
        return core if mark is None else min(core, mark)

    def stop(self, now: float) -> None:
        """Leave on purpose: callers are told, nobody is sent anything, no new disk work is begun.

        Work under way still ends by `sync_done`; after that the storage may be closed.
        """
        self._now = now
        if self.failure is None:
            self._stopped = True
            self._fail("it was closed")

    def fail(self, detail: str) -> None:
        """The shell found out that this node must not go on (a dead task, a full disk)."""
        self._fail(detail)

    def status(self) -> NodeStatus:
        return self.node.status()

    # -- effects out -----------------------------------------------------------------------------

    def _handle(self, event: ev.Event, now: float) -> None:
        self._now = now
        try:
            effects = self.node.handle(event, now)
        except SafetyViolation as violation:
            self._fail(str(violation))
            return
        self._run(effects)
        self._pump()

    def _run(self, effects: list[fx.Effect]) -> None:
        """Carry effects out in order; what they cause is carried out behind them."""
        self._effects.extend(effects)
        if self._running:
            return
        self._running = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        except (OSError, StoreError, SafetyViolation, RangeRejected) as error:
            self._effects.clear()
            self._running = False
            self._fail(str(error))
        finally:
            self._running = False

    def _carry_out(self, effect: fx.Effect) -> None:
        rule = self._RULES.get(type(effect))
        if rule is None:
            self._answer(effect)
        else:
            rule(self, effect)

    def _append_received(self, effect: fx.AppendReceived) -> None:
        self.log.append_range(effect.message.data, effect.first)

    def _truncate(self, effect: fx.TruncateAfter) -> None:
        self.log.truncate_after(effect.index)

    def _append_noop(self, effect: fx.AppendNoop) -> None:
        self.log.append([self._noop_body(effect.term)], effect.term, stamp_at=self._noop_stamp_at)
        assert self.log.last.index == effect.index

    def _persist_hard_state(self, effect: fx.PersistHardState) -> None:
        self._disk.want(effect.sequence, effect.state)

    def _answer(self, effect: fx.Effect) -> None:
        match effect:
            case fx.ProposalRejected(_, reason, leader):
                self._refused = self._error(reason, leader)
            case fx.ReadReady(read_id, index):
                self._read_ready(self._reads.pop(read_id), index)
            case fx.ReadRefused(read_id, reason, leader):
                self._reads.pop(read_id)(self._error(reason, leader))
            case fx.TransferDone(transfer_id, ok, reason):
                error = None if ok or reason is None else self._error(reason, self.node.leader)
                self._transfers.pop(transfer_id)(error)
            case _:
                raise AssertionError(f"an effect that nobody carries out: {effect}")

    def _append_local(self, effect: fx.AppendLocal) -> None:
        proposal: Proposal = effect.payload
        proposal.first, proposal.last = effect.first, effect.last
        proposal.term = term = effect.term
        self._proposals.append(proposal)  # before the write: if that fails, the outcome is unknown
        proposal.positions = self.log.append(proposal.bodies, term, stamp_at=proposal.stamp_at)
        assert self.log.last.index == effect.last

    def _send_append(self, effect: fx.SendAppend) -> None:
        message = self._append_message(effect)
        self._release(effect.to, message, effect.after)
        sent = ev.AppendSent(effect.to, message.last, message.size)
        self._effects.extend(self.node.handle(sent, self._now))

    def _append_message(self, effect: fx.SendAppend) -> AppendEntries:
        """The range as a message: followers that keep pace are sent one and the same."""
        last_max = effect.prev.index if effect.probe else effect.last_max
        wanted = (effect.prev, last_max, effect.size_max, effect.commit, effect.term, self.log.last)
        if self._sent is not None and wanted == self._sent[0]:
            return self._sent[1]
        part = self.log.read_range(Index(effect.prev.index + 1), last_max, effect.size_max)
        message = AppendEntries(
            self.node.node_id,
            effect.term,
            effect.prev,
            part.last,
            effect.commit,
            part.runs,
            part.position,
            part.prev_chain_crc,
            part.size,
            part.parts,
        )
        self._sent = (wanted, message)
        return message

    def _send(self, effect: fx.Send) -> None:
        self._release(effect.to, effect.message, effect.after)

    def _release(self, to: NodeId, message: Message, after: int) -> None:
        if after <= self._hard_persisted:
            self._ports.send(to, message)
        else:
            self._held.append((after, to, message))

    def _apply(self, effect: fx.CommitAdvanced) -> None:
        index = effect.index
        assert index <= self.log.last.index, "nothing above the log's end can be committed"
        if index <= self.applied:
            return
        self.machine.apply(Index(self.applied + 1), index)
        self.applied = index
        self.log.save_commit(index)
        while self._proposals and self._proposals[0].last <= index:
            proposal = self._proposals.popleft()
            proposal.done(proposal, None)
        if self._reads_ready:
            self._serve_reads()

    def _role_changed(self, effect: fx.RoleChanged) -> None:
        if effect.role is not Role.LEADER:
            pending, self._proposals = self._proposals, deque()
            for proposal in pending:
                unknown = OutcomeUnknown(
                    f"leadership of term {proposal.term} ended before entries {proposal.first}"
                    f"..{proposal.last} were known to be committed; look, or send again with the "
                    "same producer id and sequence"
                )
                proposal.done(proposal, unknown)
        self.machine.role_changed(effect.role, effect.term, effect.leader)

    _RULES: ClassVar[dict[type, Callable[[Replica, Any], None]]] = {
        fx.Send: _send,
        fx.SendAppend: _send_append,
        fx.AppendReceived: _append_received,
        fx.AppendLocal: _append_local,
        fx.CommitAdvanced: _apply,
        fx.PersistHardState: _persist_hard_state,
        fx.RoleChanged: _role_changed,
        fx.TruncateAfter: _truncate,
        fx.AppendNoop: _append_noop,
    }

    # -- reads -----------------------------------------------------------------------------------

    def _read_ready(self, ready: Callable[[DledgerError | None], None], index: Index) -> None:
        if self.applied >= index:
            ready(None)
        else:
            self._reads_ready.append((index, ready))

    def _serve_reads(self) -> None:
        waiting = self._reads_ready
        self._reads_ready = [read for read in waiting if read[0] > self.applied]
        for index, ready in waiting:
            if index <= self.applied:
                ready(None)

    # -- disk ------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start the disk work that is due."""
        if self.failure is None:
            self._disk.pump(self._now)

    def _finish(self, work: SyncWork) -> None:
        event = self._disk.finish(work)
        if event is None:
            return
        if isinstance(event, ev.HardStatePersisted):
            self._hard_persisted = event.sequence
            while self._held and self._held[0][0] <= self._hard_persisted:
                _, to, message = self._held.popleft()
                self._ports.send(to, message)
        self._run(self.node.handle(event, self._now))

    def _fail(self, detail: str) -> None:
        """Stop for good: no vote, no acknowledgement, no lead, no more disk work (D5)."""
        if self.failure is not None:
            return
        self.failure = NodeFailed(
            f"this replica stopped: {detail}; mend the disk or the files and start it again"
        )
        self._held.clear()
        self._effects.clear()
        effects = self.node.handle(ev.StorageFailed(Reason.DISK_ERROR, detail), self._now)
        for effect in effects:
            if not isinstance(effect, fx.Send | fx.SendAppend):
                self._carry_out(effect)
        waiting, self._reads_ready = self._reads_ready, []
        for _, ready in waiting:
            ready(self.failure)

    # -- small helpers ---------------------------------------------------------------------------

    def _check_sizes(self, proposal: Proposal) -> None:
        """Refuse for certain what storage could not write after the core has numbered it."""
        size_min, size_max = proposal.stamp_at + 8, self.log.body_size_max
        sizes = [len(body) for body in proposal.bodies]
        if max(sizes) > size_max:
            raise EntryTooLarge(
                f"an entry has {max(sizes)} bytes and a file of the log holds one of {size_max} at "
                "most; send less or set the log up with larger files"
            )
        if proposal.stamp_at >= 0 and min(sizes) < size_min:
            raise LogUsageError(
                f"a body of {min(sizes)} bytes has no room for its position at byte "
                f"{proposal.stamp_at}; send a whole message record"
            )

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _error(self, reason: Reason, leader: NodeId | None) -> DledgerError:
        match reason:
            case Reason.NOT_LEADER:
                return NotLeader(leader)
            case Reason.LEADER_TRANSFERRING:
                return Transferring("leadership is being handed over; try again shortly")
            case Reason.LEADER_NOT_READY:
                return QueueFull("the new leader is settling in; try again in a few milliseconds")
            case Reason.LEADER_PENDING_FULL:
                return QueueFull("more waits to be replicated than the limit; pause and try again")
            case Reason.DISK_ERROR:
                return self.failure or NodeFailed("this replica stopped")
            case _:
                return QueueFull(f"refused for now: {reason.name}; try again shortly")


def _received(message: AppendEntries) -> ReceivedRange:
    return ReceivedRange(
        message.prev,
        message.prev_chain_crc,
        message.last,
        message.runs,
        message.position,
        message.size,
        tuple(map(bytes, message.data or ())),  # the receive buffer is used again; the log keeps it
    )


def _with_data(message: AppendEntries, data: Any) -> AppendEntries:
    """The same message with other data; `dataclasses.replace` takes twice as long."""
    return AppendEntries(
        message.sender,
        message.term,
        message.prev,
        message.last,
        message.commit,
        message.runs,
        message.position,
        message.prev_chain_crc,
        message.size,
        data,
    )
