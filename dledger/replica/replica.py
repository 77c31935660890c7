"""One replica without a shell: the core's effects carried out on storage and ports, in order.

No sockets, threads, clock or asyncio in here. `dledger.runtime` drives it with real ones and
`chaos.sim` with virtual ones, so the simulator judges the shipping code.

    events in    receive · propose · timer · sync_done · disconnected · transfer · read_index
                 change_members
    ports out    send(peer, message) · start_sync(work) · configuration_changed ·
                 the state machine's apply / role_changed

Order within one event: log writes, then sends (those that reveal a term or vote are kept back until
it is on disk), then apply, then answers; at the end one sync is started for all that was written.
Any error of the disk, any damage and any broken safety rule stops the replica for good (D5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from commitlog.errors import StoreDamaged, StoreError
from commitlog.files.system import Buffer
from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.config import CoreConfig
from dledger.core.configuration import Change, Configuration, ConfigurationEntry
from dledger.core.leasing_node import node_class
from dledger.core.messages import AppendEntries, Message, SnapshotChunk, TimeoutNow
from dledger.core.replication import SafetyViolation
from dledger.core.status import NodeStatus
from dledger.core.types import NO_INDEX, DiskHealth, Index, NodeId, Reason, Role, Term
from dledger.errors import DiskFull, DledgerError, NodeFailed, RangeRejected
from dledger.log.file_log import FileLog
from dledger.log.port import HardStateStore, LogStore
from dledger.log.runs import term_of
from dledger.repair.repair import Repair, RepairSettings
from dledger.replica.apply_pace import ApplyPace
from dledger.replica.disk_work import DiskWork, is_sent_again
from dledger.replica.freshness import Freshness, Ready, WaitingReads
from dledger.replica.pending import Pending
from dledger.replica.ports import (
    Configurations,
    NoConfigurations,
    Ports,
    Proposal,
    StateMachine,
    SyncWork,
)
from dledger.replica.ranges import RangeMessages, read_configurations, received, with_data
from dledger.replica.refusals import change_refusal, disk_full, measure, refusal
from dledger.replica.request_ids import numbers_from
from dledger.replica.space_check import SpaceCheck
from dledger.snapshots.prefix import PREFIX_WORK, Prefix, check_chunk


class Replica:
    """Core, storage and state machine of one group on one node; see the module's text.

    `noop_body(term)` makes the body of the entry that opens a leadership: a real message of an
    internal topic, which Java reads past; with its stamp offset (docs/spec/store.md 1.1, field 7).
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
        first_id: int,
        applied: Index = NO_INDEX,
        noop_stamp_at: int = 28,
        initial: Configuration | None = None,
        configurations: Configurations | None = None,
        prefix: Prefix | None = None,
        repair_settings: RepairSettings | None = None,
    ) -> None:
        """`first_id`: see request_ids.py; `prefix`: None for a log that keeps its beginning."""
        self.log, self.machine, self.prefix = log, machine, prefix
        lacks_state = bool(repair_settings and prefix is not None and prefix.lacks_state(applied))
        self.applied = applied if lacks_state else max(applied, log.anchor.index)
        self._disk, self._ports = DiskWork(log, hard, ports), ports
        self._body_size_max = log.body_size_max
        self._noop_body, self._noop_stamp_at = noop_body, noop_stamp_at
        self._configurations = NoConfigurations() if configurations is None else configurations
        self.node = node_class(config)(
            config,
            hard.state,
            log.term_runs(),
            log.flushed,
            now,
            jitter,
            anchor=log.anchor,
            initial=initial,
            configurations=self._configurations.entries,
        )
        self._now, self._hard_persisted = now, 0
        self._effects: list[fx.Effect] = []  # few at a time; an empty deque has 760 bytes
        self.in_event = self._stopped = self.disk_refused = False
        self._space = SpaceCheck(log, self._disk, self._fail)
        self._pending = Pending(config.election_timeout_max)
        self._refused: DledgerError | None = None
        self._held: list[tuple[int, NodeId, Message]] = []
        self._ranges = RangeMessages(self.node, log)
        self._reads: dict[int, Ready] = {}
        self._waiting_reads, self._freshness = WaitingReads(), Freshness()
        self.pace = ApplyPace(log)
        self._outcomes: dict[int, Ready] = {}  # of transfers, and of changes of the group
        self._new_id = numbers_from(first_id)
        self.failure: NodeFailed | None = None
        self.repair: Repair | None = None
        if repair_settings is not None:
            assert isinstance(log, FileLog), "only a log in files can be repaired"
            calls = self.hear, self._apply_held, self._new_id
            self.repair = Repair(log, self.node, ports, repair_settings, now, *calls)
            self.repair.lacking = log.anchor.index if lacks_state else NO_INDEX

    # -- events in -------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin; call once, before anything else."""
        self._now = now
        if self.repair is not None:
            self.repair.began()
        self._run(self.node.start(now))
        self._pump()

    def receive(self, message: Message, now: float) -> None:
        """Take a peer's message. Raises RangeRejected when the bytes of its range are invalid.

        Then nothing happened here; the shell closes the connection that it came on.
        """
        if (
            type(message) is AppendEntries
            and self.failure is None
            and (message.size or message.last != message.prev.index)
        ):
            verified = self.log.check_range(received(message))
            message = with_data(message, verified)
            if message.configurations:
                found = read_configurations(message, verified, self._configurations.decode)
                message = replace(message, configurations=found)
            follows = self.node.log.term_at(message.prev.index) == message.prev.term
            if follows and self._space.lacks_for_range(message, verified, now):
                return  # it is sent again; the leader hears why (disk.py)
        elif type(message) is SnapshotChunk:
            check_chunk(message)
        elif type(message) is TimeoutNow:
            self._look_for_space(now)
        self._handle(ev.MessageReceived(message), now)

    def looked(self, found: ev.Found, now: float) -> None:
        """The shell has looked at the disk (disk_watch.py), at other hosts (beats.py) or nodes."""
        self._handle(found, now)

    def timer(self, now: float) -> None:
        """`deadline()` has come; harmless at any other time."""
        self._pending.expire(now)
        if self.node.role is not Role.LEADER and now >= self.node.deadline():
            self._look_for_space(now)
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
        assert not self.in_event, "propose is not called from inside apply or done"
        count, size, largest = measure(proposal, self._body_size_max)
        leads = self.node.role is Role.LEADER
        frees = proposal.frees_space
        if leads and self._space.lacks_for_bodies(count, size, largest, now, uses_spare=frees):
            raise DiskFull(f"no space for more of the log: {self._space.why}")
        self._refused, when_written = None, proposal.written is not None
        self._handle(ev.ProposalReceived(count, size, proposal, when_written, frees), now)
        if self._refused is not None:
            refused, self._refused = self._refused, None
            raise refused

    def read_index(self, ready: Ready, now: float, staleness: float = 0.0) -> None:
        """Call `ready(None)` when a linearizable read may be served from the applied state.

        Or one that misses at most what was acknowledged in the last `staleness` seconds.
        """
        if self.failure is None and self._freshness.is_within(staleness, now):
            ready(None)
            return
        read_id = self._new_id()
        self._reads[read_id] = self._freshness.proving(ready, now)
        self._handle(ev.ReadRequested(read_id), now)

    def transfer(self, to: NodeId | None, done: Ready, now: float) -> None:
        """Hand leadership to `to` (None: the best follower)."""
        transfer_id = self._new_id()
        self._outcomes[transfer_id] = done
        self._handle(ev.TransferRequested(to, transfer_id), now)

    def tell_commit(self, to: NodeId, now: float) -> None:
        """Send the commit index to a follower at once, if this node leads."""
        self._handle(ev.CommitWanted(to), now)

    def change_members(
        self, change: Change, done: Ready, now: float, incarnations: Mapping[NodeId, int] | None
    ) -> None:
        """Change the group by one step; `done(None)` when that is committed. See its event."""
        change_id = self._new_id()
        self._outcomes[change_id] = done
        self._handle(ev.MembershipRequested(change, change_id, incarnations), now)

    def trim(self, position: int) -> bool:
        """Begin to delete the log below `position`, where a log file and a state begin.

        False: there is nothing to delete, or it cannot be done now. Raises StoreDamaged.
        """
        if self.failure is not None or self.prefix is None or self._disk.is_busy("trim"):
            return False
        # What is not applied stays: the state that it leads to may be of another incarnation.
        decided = min(self.node.commit, self.applied)
        task = self.prefix.begin_trim(position, decided, self.node.configuration_at)
        return self._disk.start_any("trim", task)

    def restored(self, now: float) -> None:
        """The state machine has the state that it was being given: the entries behind it follow."""
        index, self.pace.restoring = self.pace.restoring, NO_INDEX
        if self.failure is None:
            self.applied = index
            self._waiting_reads.serve(index)
            self.go_on(now)

    def go_on(self, now: float) -> None:
        """Apply more entries; the shell calls it in a later turn when `pace.is_behind`."""
        if self.failure is None:
            self._now, self.pace.is_behind = now, False
            self._apply_held()
            self._pump()

    def sync_done(self, work: SyncWork, error: BaseException | None, now: float) -> None:
        """Work given to `start_sync` has ended."""
        self._now = now
        self._disk.ended(work)
        if work.kind == "prepare" or is_sent_again(work, error):
            if error is None:
                self._space.ended_well()
            return  # when it failed, what needs it tries again; the shell says why
        if error is not None:
            self.disk_refused = True
            self._fail(f"the disk refused a {work.kind} sync: {error}")
        elif self._stopped:
            self._disk.finish(work, closing=True)  # the rules do not hear of it any more
        if self.failure is not None:
            return
        try:
            self._finish(work)
        except (OSError, StoreError, SafetyViolation) as failed:
            self._fail(str(failed))
            return
        self._pump()

    def tend(self, now: float) -> float:
        """Repair damage and look for more; return when this is due again, in the caller's seconds.

        Call it once after `start`, when it is due and after each `sync_done` of kind "mend".
        """
        self._now = now
        if self.repair is None or self.failure is not None:
            return float("inf")
        try:
            return self.repair.tend(now)
        except OSError as error:
            self._fail(str(error))
            return float("inf")

    def deadline(self) -> float:
        """When `timer` is due, in the caller's seconds."""
        if self.failure is not None:
            return float("inf")
        due, waits, mark = self.node.deadline(), self._pending.deadline, self._disk.mark_due
        due = waits if waits < due else due
        return due if mark is None or mark > due else mark

    def stop(self, now: float) -> None:
        """Leave on purpose: answer the callers, send no messages, begin no new disk work.

        Work under way ends by `sync_done`; then the storage is closed, or let go if `disk_refused`.
        """
        self._now = now
        if self.failure is None:
            self._stopped = True
            self._fail("it was closed")

    def fail(self, detail: str, named: NodeFailed | None = None) -> None:
        """The shell found out that this node must not go on; `named`: an error with its remedy."""
        self._fail(detail, named)

    def status(self) -> NodeStatus:
        """A frozen picture of the core: role, term, vote, pointers, peers, configuration."""
        return self.node.status()

    # -- effects out -----------------------------------------------------------------------------

    def hear(self, event: ev.Event) -> None:
        """Give the core an event that came up within a step, and carry out its effects."""
        self._run(self.node.handle(event, self._now))

    def _handle(self, event: ev.Event, now: float) -> None:
        self._now = now
        try:
            effects = self.node.handle(event, now)
        except SafetyViolation as violation:
            self._fail(str(violation))
            return
        if effects or self._disk.is_mark_due(now):
            self._run(effects)
            self._pump()

    def _run(self, effects: list[fx.Effect]) -> None:
        """Carry effects out in order; effects that they cause come behind them."""
        queue, rules = self._effects, self._RULES
        queue.extend(effects)
        if self.in_event:
            return
        self.in_event = True
        try:
            while queue:
                effect = queue.pop(0)
                rules.get(type(effect), Replica._answer)(self, effect)
        except (OSError, StoreError, SafetyViolation, RangeRejected) as error:
            self._effects.clear()
            self.in_event = False
            self._fail(str(error))
        finally:
            self.in_event = False

    def _append_received(self, effect: fx.AppendReceived) -> None:
        for entry in effect.message.configurations:
            if entry.index >= effect.first:
                self._configurations.note(entry, term_of(effect.message.runs, entry.index))
        self.log.append_range(effect.message.data, effect.first)

    def _append_configuration(self, effect: fx.AppendConfiguration) -> None:
        entry = ConfigurationEntry(effect.index, effect.configuration)
        self._configurations.note(entry, effect.term)
        body = self._configurations.encode(effect.configuration)
        self.log.append([body], effect.term, stamp_at=self._noop_stamp_at)
        assert self.log.last.index == effect.index

    def _send_snapshot(self, effect: fx.SendSnapshot) -> None:
        message = self.prefix.chunk(effect, self.node.node_id) if self.prefix else None
        if message is not None:
            self._release(effect.to, message, effect.after)

    def _receive_snapshot(self, effect: fx.ReceiveSnapshot) -> None:
        """Keep one chunk at a time; the leader sends one again that came when this was busy."""
        if self.prefix and not (self._disk.is_busy("snapshot") or self.pace.restoring >= 0):
            self._disk.start("snapshot", self.prefix.begin_receive(effect.message))

    def _install_snapshot(self, effect: fx.InstallSnapshot) -> None:
        assert self.prefix is not None
        self.prefix.install(effect)
        self._state_taken(effect.anchor.index)

    def _state_taken(self, index: Index) -> None:
        """A peer's state was taken, unseen by proposals that wait here: they end as unknown."""
        self._pending.cut_after(NO_INDEX)
        if self.prefix and self.prefix.restores_later:
            self.pace.restoring = index
            return
        self.applied = index
        self._waiting_reads.serve(index)

    def _take_state(self, _: fx.TakeState) -> None:
        """Begin to replace the log by a state from the leader; if that fails, ask for it again."""
        assert self.prefix is not None
        if not self._disk.is_busy("trim"):
            self._disk.start_any("trim", self.prefix.begin_take())

    def _truncate(self, effect: fx.TruncateAfter) -> None:
        self.log.truncate_after(effect.index)
        self._pending.cut_after(effect.index)

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
                self._waiting_reads.add(self._reads.pop(read_id), index, self.applied)
            case fx.ReadRefused(read_id, reason, leader):
                self._reads.pop(read_id)(self._error(reason, leader))
            case fx.TransferDone(transfer_id, ok, reason):
                error = None if ok or reason is None else self._error(reason, self.node.leader)
                self._outcomes.pop(transfer_id)(error)
            case fx.ConfigurationChanged(configuration, index):
                self._ports.configuration_changed(configuration, index)
            case fx.MembershipDone(change_id, ok, reason):
                refused = None
                if not ok and reason is not None:
                    refused = change_refusal(reason, self.node.leader, self.failure)
                self._outcomes.pop(change_id)(refused)
            case _:
                raise AssertionError(f"an effect that nobody carries out: {effect}")

    def _append_local(self, effect: fx.AppendLocal) -> None:
        proposal: Proposal = effect.payload
        proposal.first, proposal.last = effect.first, effect.last
        proposal.term = term = effect.term
        self._pending.add(proposal)  # before the write: if that fails, the outcome is unknown
        proposal.positions = self.log.append(proposal.bodies, term, stamp_at=proposal.stamp_at)
        assert self.log.last.index == effect.last

    def _send_append(self, effect: fx.SendAppend) -> None:
        try:
            message = self._ranges.message(effect)
        except StoreDamaged:
            if self.repair is None:
                raise
            # Not sent, never: a leader whose log is damaged hands over (R2).
            self.hear(ev.DamageNoted(Index(effect.prev.index + 1)))
            return
        self._release(effect.to, message, effect.after)
        more = self.node.handle(ev.AppendSent(effect.to, message.last, message.size), self._now)
        if more:
            self._effects.extend(more)

    def _send(self, effect: fx.Send) -> None:
        self._release(effect.to, effect.message, effect.after)

    def _release(self, to: NodeId, message: Message, after: int) -> None:
        if after <= self._hard_persisted:
            self._ports.send(to, message)
        else:
            self._held.append((after, to, message))

    def _apply(self, effect: fx.CommitAdvanced) -> None:
        assert effect.index <= self.log.last.index, "nothing above its end can be committed"
        index = self.pace.through(self.applied, effect.index, self.repair)
        if index <= self.applied:
            return
        taken = self.machine.apply(Index(self.applied + 1), index)
        self.applied = index = self.pace.taken(self.applied, index, taken)
        self.log.save_commit(index)
        self._pending.applied(index)
        self._waiting_reads.serve(index)

    def _written(self, effect: fx.WrittenAdvanced) -> None:
        self._pending.written(effect.index)

    def _apply_held(self) -> None:
        self._run([fx.CommitAdvanced(self.node.commit)])

    def _repair_message_received(self, effect: fx.RepairMessageReceived) -> None:
        if self.repair is not None:
            self.repair.receive(effect.message, self._now)

    def _role_changed(self, effect: fx.RoleChanged) -> None:
        if effect.role is not Role.LEADER:
            self._pending.leadership_ended(self._now)
            if self.failure is not None or self.node.disk.health is not DiskHealth.GOOD:
                self._pending.give_up()  # who needs this disk to know may wait long
        self.machine.role_changed(effect.role, effect.term, effect.leader)

    _RULES: ClassVar[dict[type, Callable[[Replica, Any], None]]] = {
        fx.Send: _send,
        fx.SendAppend: _send_append,
        fx.SendSnapshot: _send_snapshot,
        fx.ReceiveSnapshot: _receive_snapshot,
        fx.InstallSnapshot: _install_snapshot,
        fx.TakeState: _take_state,
        fx.AppendReceived: _append_received,
        fx.AppendLocal: _append_local,
        fx.CommitAdvanced: _apply,
        fx.WrittenAdvanced: _written,
        fx.PersistHardState: _persist_hard_state,
        fx.RoleChanged: _role_changed,
        fx.TruncateAfter: _truncate,
        fx.AppendNoop: _append_noop,
        fx.AppendConfiguration: _append_configuration,
        fx.RepairMessageReceived: _repair_message_received,
    }

    # -- disk ------------------------------------------------------------------------------------

    def _look_for_space(self, now: float) -> None:
        """Before this node may stand: would the first entry of its leadership find space?"""
        size, disk = len(self._noop_body(self.node.term)), self.node.disk
        lacks = self.failure is None and self._space.lacks_for_leadership(size, now)
        if lacks is not disk.may_not_lead:
            self._handle(replace(disk, may_not_lead=lacks), now)

    def _pump(self) -> None:
        """Start the disk work that is due."""
        if self.failure is None:
            try:
                self._disk.pump(self._now)
            except OSError as error:
                self._fail(str(error))

    def _finish(self, work: SyncWork) -> None:
        if work.kind == "mend":
            assert self.repair is not None
            self.repair.ended(work, self._now)
            return
        if self.prefix is not None and work.kind in PREFIX_WORK:
            trimming = self._disk.is_busy("trim") or self.pace.restoring >= 0
            event, applied = self.prefix.finished(work.task, self.applied, trimming=trimming)
            if applied != self.applied:
                self._state_taken(applied)
        else:
            event = self._disk.finish(work)
        if event is None:
            return
        if isinstance(event, ev.HardStatePersisted):
            self._hard_persisted = event.sequence
            while self._held and self._held[0][0] <= self._hard_persisted:
                _, to, message = self._held.pop(0)
                self._ports.send(to, message)
        self._run(self.node.handle(event, self._now))
        if self.repair is not None and work.kind in PREFIX_WORK:
            self.repair.began_anew(max(self.applied, self.pace.restoring))

    def _fail(self, detail: str, named: NodeFailed | None = None) -> None:
        """Stop for good: no vote, no acknowledgement, no lead, no more disk work (D5)."""
        if self.failure is not None:
            return
        self.failure = named or NodeFailed(
            f"this replica stopped: {detail}; remove the cause and start this node again"
        )
        self._held.clear()
        self._effects.clear()
        if self.repair is not None:
            self.repair.stopped = True
        effects = self.node.handle(ev.StorageFailed(Reason.DISK_ERROR, detail), self._now)
        for effect in effects:
            if not isinstance(effect, fx.Send | fx.SendAppend):
                self._RULES.get(type(effect), Replica._answer)(self, effect)
        self._waiting_reads.end(self.failure)

    def _error(self, reason: Reason, leader: NodeId | None) -> DledgerError:
        if reason is Reason.DISK_FULL:
            return DiskFull(disk_full(self.node))
        return refusal(reason, leader, self.failure)
