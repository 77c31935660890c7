"""RaftNode: one replica's rules. `handle(event, now)` is the only door; effects come out.

    effects = node.handle(event, now)      state changes here and nowhere else
    node.deadline()                        when to call with TimerFired next
    node.status()                          a frozen picture for people and checkers

No clock, random source, file or socket: the same events, at the same times, give the same effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dledger.core import (
    disk,
    election,
    hosts,
    leading,
    quiet,
    reads,
    replication,
    snapshot_sending,
    snapshots,
    transfer,
)
from dledger.core import events as ev
from dledger.core import margin as margins
from dledger.core import messages as msg
from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration, ConfigurationEntry, of_voters
from dledger.core.effects import Effect, RepairMessageReceived
from dledger.core.log_view import LogView
from dledger.core.progress import Progress
from dledger.core.span import Span
from dledger.core.state import State
from dledger.core.status import NodeStatus, PeerStatus
from dledger.core.types import NO_ENTRY, EntryId, HardState, Index, NodeId, Role, Term, TermRun

#: Looked up on the class a member of an enum costs ten times as much, and every event asks.
_LEADER, _FAILED = Role.LEADER, Role.FAILED
_new = tuple.__new__


class RaftNode:
    """The rules of one replica, which change its `state`; others only look at that."""

    def __init__(
        self,
        config: CoreConfig,
        hard_state: HardState,
        runs: Sequence[TermRun],
        flushed: Index,
        now: float,
        jitter: Callable[[], float],
        *,
        anchor: EntryId = NO_ENTRY,
        initial: Configuration | None = None,
        configurations: Sequence[ConfigurationEntry] = (),
    ) -> None:
        """Start from the recovered storage.

        Args:
            runs: the terms of the whole log; the last entry for votes is taken from here (S6).
            flushed: how much of it is on disk for sure (R3).
            jitter: numbers in [0, 1) for election deadlines.
            anchor: the entry before the first one; it is committed.
            initial: the group before any entry says otherwise; None: `config.voters`.
            configurations: those that the log holds, in order (R20).
        """
        config.validate()
        log = LogView(runs, anchor)
        assert flushed <= log.last.index
        self.state = State(
            config,
            jitter,
            hard_state.term,
            hard_state.voted_for,
            hard_state.incarnation,
            hard_state.forgot,
            log,
            flushed,
            commit=anchor.index,
            initial=of_voters(config.voters) if initial is None else initial,
            configurations=list(configurations),
            now=now,
        )
        if log.last.term > hard_state.term:
            # Imported from Java, a crash between the two files, or a lost vote file (`forgot`).
            self.state.term, self.state.voted_for = Term(log.last.term), None
            self.state.persist()
        self.state.reset_election_deadline()

    def start(self, now: float) -> list[Effect]:
        """Effects of coming up; call once before the first event."""
        state = self.state
        state.now = now
        state.reset_election_deadline()
        effects, state.out = state.out, []
        return effects

    def handle(self, event: ev.Event, now: float) -> list[Effect]:
        """Take one event in; return the effects to carry out, in order. Time never goes back."""
        state = self.state
        if now > state.now:
            state.now = now
        if state.quiet:
            quiet.stir(state, event)
        rule: Callable[[State, Any], None] | None
        if state.role is _FAILED:
            rule = _EVENTS_WHEN_FAILED.get(type(event))
        else:
            rule = _EVENTS[type(event)]
        if rule is not None:
            rule(state, event)
        effects, state.out = state.out, []
        return effects

    def deadline(self) -> float:
        """When `TimerFired` is due, in the driver's seconds; infinity when never."""
        state = self.state
        if state.role is _LEADER:
            return state.heartbeat_deadline
        if state.role is _FAILED:
            return float("inf")
        if not state.asked_reads:
            return state.election_deadline
        return min(state.election_deadline, reads.deadline(state))

    def status(self) -> NodeStatus:
        """A frozen picture, made from tuples in half the time: simulated runs take one an event."""
        state = self.state
        peers = [
            _new(
                PeerStatus,
                (peer, p.mode.value, p.next, p.matched, p.flushed, p.in_flight_bytes, p.heard_at),
            )
            for peer, p in state.progress.items()
        ]
        picture = (
            state.me,
            state.role,
            state.term,
            state.voted_for,
            state.leader,
            state.log.last,
            state.flushed,
            state.commit,
            state.noop_index,
            state.failure,
            tuple(peers),
            state.configuration,
            state.configuration_index,
        )
        return _new(NodeStatus, picture)

    @property
    def progress(self) -> Mapping[NodeId, Progress]:
        """A leader's view of its followers, for checkers; never change it."""
        return self.state.progress

    @property
    def log(self) -> LogView:
        """The term view, for checkers; never change it."""
        return self.state.log

    @property
    def configuration(self) -> Configuration:
        """The group, as the newest configuration in the log has it."""
        return self.state.configuration

    @property
    def configuration_index(self) -> Index:
        """Where that configuration is in the log, -1: as the node was set up."""
        return self.state.configuration_index

    def configuration_at(self, index: Index) -> Configuration:
        """The group as the entries up to `index`, none of them deleted, have it."""
        return snapshots.configuration_at(self.state, index)

    def configurations_in(self, first: Index, last: Index) -> tuple[ConfigurationEntry, ...]:
        """Which of the entries `first`..`last` are configurations: frames flag them (R20)."""
        if last < first or self.state.configuration_index < first:
            return ()
        return tuple(e for e in self.state.configurations if first <= e.index <= last)

    def margin(self, of: Configuration | None = None) -> margins.Margin | None:
        """How many more may fail, as of the last event; None where this node does not lead.

        `of`: of a configuration that might be, and not of those that decide now.
        """
        if self.state.role is not Role.LEADER:
            return None
        configurations = margins.deciding(self.state) if of is None else (of,)
        return margins.margin(configurations, margins.troubles(self.state))

    @property
    def disk(self) -> ev.DiskChecked:
        """How this node's disk does, as it was last told."""
        return self.state.disk

    @property
    def full_voters(self) -> tuple[NodeId, ...]:
        """As leader: the voters with full disks that leave no majority for more of the log."""
        return self.state.full_voters

    @property
    def reads_served(self) -> tuple[int, int]:
        """As leader, since it was started: by a lease, after asking a majority."""
        return self.state.reads_by_lease, self.state.reads_by_index

    def live_leader(self) -> NodeId | None:
        """The leader, if it was heard within the lease or need not speak, as of the last event."""
        state = self.state
        return state.leader if state.quiet or state.leader_is_alive() else None

    @property
    def config(self) -> CoreConfig:
        """The settings of the rules; they never change."""
        return self.state.config

    @property
    def node_id(self) -> NodeId:
        """The id of this node."""
        return self.state.me

    @property
    def standing(self) -> tuple[Term, Role, NodeId | None, Index]:
        """Term, role, leader and commit at once, cheap enough for a look after every event."""
        state = self.state
        return state.term, state.role, state.leader, state.commit

    @property
    def is_quiet(self) -> bool:
        """No heartbeats are sent or expected (quiet.py)."""
        return self.state.quiet

    @property
    def role(self) -> Role:
        """The node's role as of the last event; `FAILED` is final."""
        return self.state.role

    @property
    def term(self) -> Term:
        """The newest term that this node has seen; its storage may not have it yet."""
        return self.state.term

    @property
    def leader(self) -> NodeId | None:
        """The leader of the present term, itself if it leads; None while it knows of none."""
        return self.state.leader

    @property
    def commit(self) -> Index:
        """The highest index that this node knows to be committed; it never falls."""
        return self.state.commit


# -- what each event does --------------------------------------------------------------------------


def _message_received(state: State, event: ev.MessageReceived) -> None:
    message = event.message
    if message.sender in state.peers or _is_heard(state, message):
        _MESSAGES[type(message)](state, message)


def _is_heard(state: State, message: msg.Message) -> bool:
    """One that this node does not know may be a member by an entry that has not come yet (4.1).

    So it may lead and ask for votes; nothing else that it says counts, and a leader that is known
    and alive is not left for it. A leader that was removed is heard to its end.
    """
    kind = type(message)
    if kind is msg.VoteRequest:
        return True
    if message.sender == state.leader:
        return kind in (
            msg.AppendEntries,
            msg.SnapshotChunk,
            msg.Heartbeat,
            msg.TimeoutNow,
            msg.ReadIndexReply,
        )
    if not isinstance(message, msg.AppendEntries | msg.Heartbeat):
        return False
    known = message.term <= state.term and state.leader is not None
    return not (state.leader_is_alive() or known)


def _answered(
    state: State, message: msg.AppendReply | msg.SnapshotReply | msg.HeartbeatReply
) -> None:
    """Answers to a leader: those of other terms are not counted (S7)."""
    if message.term > state.term:
        election.become_follower(state, message.term, None)
    if message.term != state.term or state.role is not _LEADER:
        return
    if isinstance(message, msg.AppendReply):
        leading.append_replied(state, message)
    elif isinstance(message, msg.SnapshotReply):
        snapshot_sending.replied(state, message)
    else:
        leading.heartbeat_replied(state, message)


def _flushed(state: State, event: ev.EntriesFlushed) -> None:
    assert event.index <= state.log.last.index, "nothing that was dropped can become durable"
    index = event.index if not 0 <= state.damaged <= event.index else Index(state.damaged - 1)
    if index <= state.flushed:
        return
    state.flushed = index
    if state.role is _LEADER:
        leading.advance_commit(state)
    else:
        replication.entries_flushed(state)


def _damage_noted(state: State, event: ev.DamageNoted) -> None:
    """R2: acknowledge no entry from the damage on, do not stand, and give up a leadership.

    It goes on to vote, by the end of its log. When all is whole again, `EntriesFlushed` follows.
    """
    state.damaged = event.first
    if event.first < 0:
        return
    state.flushed = min(state.flushed, Index(event.first - 1))
    if state.role is _LEADER:
        transfer.resign(state)


def _repair_message_received(state: State, message: msg.RangeRequest | msg.RangeReply) -> None:
    state.out.append(RepairMessageReceived(message))


def _timer_fired(state: State, _event: ev.TimerFired) -> None:
    reads.tick(state)
    if state.role is not Role.LEADER:
        election.timer_fired(state)
    elif not leading.heartbeat_due(state):
        election.become_follower(state, state.term, None)


def _storage_failed(state: State, event: ev.StorageFailed) -> None:
    """Stop voting, acknowledging and leading at once (D5)."""
    if state.role is Role.LEADER:
        leading.stop(state)
    state.role, state.leader, state.failure = Role.FAILED, None, event.detail
    state.end(Span.CANDIDACY)
    state.changed()
    reads.leader_changed(state)


_EVENTS: dict[type, Callable[[State, Any], None]] = {
    ev.MessageReceived: _message_received,
    ev.AppendSent: leading.append_sent,
    ev.EntriesFlushed: _flushed,
    ev.PrefixDropped: snapshots.dropped,
    ev.SnapshotReceived: snapshots.received,
    ev.ProposalReceived: leading.propose,
    ev.TimerFired: _timer_fired,
    ev.HardStatePersisted: election.hard_state_persisted,
    ev.StorageFailed: _storage_failed,
    ev.DiskChecked: disk.checked,
    ev.DamageNoted: _damage_noted,
    ev.StateNeeded: snapshots.needed,
    ev.TransferRequested: transfer.requested,
    ev.MembershipRequested: leading.change_members,
    ev.ReadRequested: reads.requested,
    ev.CommitWanted: leading.commit_wanted,
    ev.PeerDisconnected: hosts.disconnected,
    ev.PeerConnected: hosts.connected,
    ev.HostsWatched: hosts.watched,
    ev.ElectionHeld: hosts.held,
}

#: A failed node answers its own callers, and says nothing to anybody else (D5).
_EVENTS_WHEN_FAILED: dict[type, Callable[[State, Any], None]] = {
    ev.ProposalReceived: leading.propose,
    ev.ReadRequested: reads.requested,
    ev.TransferRequested: transfer.requested,
    ev.MembershipRequested: leading.change_members,
}

_MESSAGES: dict[type, Callable[[State, Any], None]] = {
    msg.AppendEntries: replication.append_received,
    msg.AppendReply: _answered,
    msg.SnapshotChunk: snapshots.chunk_received,
    msg.SnapshotReply: _answered,
    msg.Heartbeat: replication.heartbeat_received,
    msg.HeartbeatReply: _answered,
    msg.VoteRequest: election.vote_requested,
    msg.VoteReply: election.vote_replied,
    msg.TimeoutNow: election.timeout_now,
    msg.RangeRequest: _repair_message_received,
    msg.RangeReply: _repair_message_received,
    msg.ReadIndexRequest: reads.request_received,
    msg.ReadIndexReply: reads.reply_received,
    msg.DiskReport: disk.reported,
}
