"""RaftNode: one replica's rules. `handle(event, now)` is the only door; effects come out.

    effects = node.handle(event, now)      state changes here and nowhere else
    node.deadline()                        when to call with TimerFired next
    node.status()                          a frozen picture for people and checkers

No clock, no random source, no file, no socket: `now` and the jitter are given. One schedule of
events gives one list of effects, always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dledger.core import election, leading, reads, replication, transfer
from dledger.core import events as ev
from dledger.core import messages as msg
from dledger.core.config import CoreConfig
from dledger.core.effects import Effect
from dledger.core.log_view import LogView
from dledger.core.progress import Progress
from dledger.core.state import State
from dledger.core.status import NodeStatus, PeerStatus
from dledger.core.types import (
    FIRST_INDEX,
    NO_INDEX,
    HardState,
    Index,
    NodeId,
    Role,
    Term,
    TermRun,
)


class RaftNode:
    """The rules of one replica; see the module's text."""

    def __init__(
        self,
        config: CoreConfig,
        hard_state: HardState,
        runs: Sequence[TermRun],
        flushed: Index,
        now: float,
        jitter: Callable[[], float],
        *,
        first: Index = FIRST_INDEX,
    ) -> None:
        """Start from what storage recovered.

        Args:
            runs: the terms of the whole log; the last entry for votes is taken from here (S6).
            flushed: how much of it is on disk for sure (R3).
            jitter: numbers in [0, 1) for election deadlines.
        """
        config.validate()
        log = LogView(runs, first)
        assert flushed <= log.last.index
        self._state = State(
            config,
            jitter,
            hard_state.term,
            hard_state.voted_for,
            hard_state.incarnation,
            log,
            flushed,
            commit=NO_INDEX,
            now=now,
        )
        if log.last.term > hard_state.term:
            # The log was written in a later term than the vote file says: imported from Java, or a
            # crash between the two. Nobody was promised a vote in it, so none is lost (rule 5).
            self._state.term, self._state.voted_for = Term(log.last.term), None
            self._state.persist()
        self._state.reset_election_deadline()

    def start(self, now: float) -> list[Effect]:
        """Effects of coming up; call once before the first event."""
        self._state.now = now
        self._state.reset_election_deadline()
        return self._drain()

    def handle(self, event: ev.Event, now: float) -> list[Effect]:
        """Take one event in; return what must be done, in order. Time never runs backward."""
        state = self._state
        state.now = max(state.now, now)
        rule: Callable[[State, Any], None] | None
        if state.role is Role.FAILED:
            rule = _EVENTS_WHEN_FAILED.get(type(event))
        else:
            rule = _EVENTS[type(event)]
        if rule is not None:
            rule(state, event)
        return self._drain()

    def deadline(self) -> float:
        """When `TimerFired` is due, in the driver's seconds; infinity when never."""
        state = self._state
        if state.role is Role.FAILED:
            return float("inf")
        if state.role is Role.LEADER:
            return state.heartbeat_deadline
        return min(state.election_deadline, reads.deadline(state))

    def status(self) -> NodeStatus:
        """A frozen picture."""
        state = self._state
        return NodeStatus(
            node_id=state.me,
            role=state.role,
            term=state.term,
            voted_for=state.voted_for,
            leader=state.leader,
            last=state.log.last,
            flushed=state.flushed,
            commit=state.commit,
            noop_index=state.noop_index,
            failure=state.failure,
            peers=tuple(
                PeerStatus(
                    peer, p.mode.value, p.next, p.matched, p.flushed, p.in_flight_bytes, p.heard_at
                )
                for peer, p in state.progress.items()
            ),
        )

    @property
    def progress(self) -> Mapping[NodeId, Progress]:
        """A leader's view of its followers, for checkers; never change it."""
        return self._state.progress

    @property
    def log(self) -> LogView:
        """The term view, for checkers; never change it."""
        return self._state.log

    @property
    def node_id(self) -> NodeId:
        return self._state.me

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def term(self) -> Term:
        return self._state.term

    @property
    def leader(self) -> NodeId | None:
        return self._state.leader

    @property
    def commit(self) -> Index:
        return self._state.commit

    def _drain(self) -> list[Effect]:
        effects, self._state.out = self._state.out, []
        return effects


# -- what each event does --------------------------------------------------------------------------


def _message_received(state: State, event: ev.MessageReceived) -> None:
    message = event.message
    if message.sender in state.config.voters and message.sender != state.me:
        _MESSAGES[type(message)](state, message)


def _answered(state: State, message: msg.AppendReply | msg.HeartbeatReply) -> None:
    """Answers to a leader: those of other terms are not counted (S7)."""
    if message.term > state.term:
        election.become_follower(state, message.term, None)
    if message.term != state.term or state.role is not Role.LEADER:
        return
    if isinstance(message, msg.AppendReply):
        leading.append_replied(state, message)
    else:
        leading.heartbeat_replied(state, message)


def _flushed(state: State, event: ev.EntriesFlushed) -> None:
    assert event.index <= state.log.last.index, "nothing that was dropped can become durable"
    if event.index <= state.flushed:
        return
    state.flushed = event.index
    if state.role is Role.LEADER:
        leading.advance_commit(state)
    else:
        replication.entries_flushed(state)


def _timer_fired(state: State, _event: ev.TimerFired) -> None:
    reads.tick(state)
    if state.role is not Role.LEADER:
        election.timer_fired(state)
    elif not leading.heartbeat_due(state):
        election.become_follower(state, state.term, None)


def _disconnected(state: State, event: ev.PeerDisconnected) -> None:
    if event.bulk and state.role is Role.LEADER:
        leading.disconnected(state, event.peer)
    if event.control and state.role is Role.FOLLOWER and event.peer == state.leader:
        election.leader_disconnected(state)


def _storage_failed(state: State, event: ev.StorageFailed) -> None:
    """Stop voting, acknowledging and leading at once (D5)."""
    if state.role is Role.LEADER:
        leading.stop(state)
    state.role, state.leader, state.failure = Role.FAILED, None, event.detail
    state.votes.clear()
    state.changed()
    reads.leader_changed(state)


_EVENTS: dict[type, Callable[[State, Any], None]] = {
    ev.MessageReceived: _message_received,
    ev.AppendSent: leading.append_sent,
    ev.EntriesFlushed: _flushed,
    ev.ProposalReceived: leading.propose,
    ev.TimerFired: _timer_fired,
    ev.HardStatePersisted: election.hard_state_persisted,
    ev.StorageFailed: _storage_failed,
    ev.TransferRequested: transfer.requested,
    ev.ReadRequested: reads.requested,
    ev.PeerDisconnected: _disconnected,
}

#: A failed node answers its own callers, and says nothing to anybody else (D5).
_EVENTS_WHEN_FAILED: dict[type, Callable[[State, Any], None]] = {
    ev.ProposalReceived: leading.propose,
    ev.ReadRequested: reads.requested,
    ev.TransferRequested: transfer.requested,
}

_MESSAGES: dict[type, Callable[[State, Any], None]] = {
    msg.AppendEntries: replication.append_received,
    msg.AppendReply: _answered,
    msg.Heartbeat: replication.heartbeat_received,
    msg.HeartbeatReply: _answered,
    msg.VoteRequest: election.vote_requested,
    msg.VoteReply: election.vote_replied,
    msg.TimeoutNow: election.timeout_now,
    msg.ReadIndexRequest: reads.request_received,
    msg.ReadIndexReply: reads.reply_received,
}
