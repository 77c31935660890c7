"""Elections: pre-vote, vote, stickiness (paper 5.2, 5.4.1; dissertation 4.2.3, 9.6).

           timer                 majority would            vote on disk and
    FOLLOWER ──► PRE_CANDIDATE ────────────► CANDIDATE ────────────► LEADER
       ▲               │  higher term, or a leader speaks    │           │
       └───────────────┴─────────────────────────────────────┴───────────┘

A node that was cut off keeps its term: it never gets past the pre-vote. So it disturbs no other
node when it comes back, and follows the leader within one heartbeat (L1).
"""

from __future__ import annotations

from dledger.core import leading, membership, reads, transfer
from dledger.core.events import HardStatePersisted
from dledger.core.messages import TimeoutNow, VoteReply, VoteRequest
from dledger.core.quorum import has_majority
from dledger.core.span import Span
from dledger.core.state import State
from dledger.core.types import DiskHealth, NodeId, Role, Term


def become_follower(state: State, term: Term, leader: NodeId | None) -> None:
    """Follow `leader` (None: not known yet) in `term`, which is this node's or a later one."""
    assert term >= state.term, "terms never fall"
    was = (state.role, state.term, state.leader)
    if state.role is Role.LEADER:
        leading.stop(state)
    if term > state.term:
        state.term, state.voted_for = term, None
        state.end(Span.TERM)
        state.persist()
    state.end(Span.CANDIDACY)
    state.role, state.leader = Role.FOLLOWER, leader
    if (state.role, state.term, state.leader) != was:
        state.changed()
        reads.leader_changed(state)


def timer_fired(state: State) -> None:
    """Begin a pre-vote if this node has heard no leader for one election timeout."""
    if state.role is Role.LEADER or state.now < state.election_deadline:
        return
    disk_unfit = state.disk.health is DiskHealth.STALLED or state.disk.may_not_lead
    if membership.may_stand(state) and not disk_unfit:
        start_pre_vote(state)
    else:  # this node may not lead; it only forgets the leader that it no longer hears
        state.reset_election_deadline()
        become_follower(state, state.term, None)


def start_pre_vote(state: State) -> None:
    """Ask the voters whether they would elect this node; no node's term changes."""
    state.reset_election_deadline()
    before = (state.role, state.leader)
    state.end(Span.CANDIDACY)
    state.role, state.leader = Role.PRE_CANDIDATE, None
    if before != (state.role, state.leader):
        state.changed()
        reads.leader_changed(state)
    state.votes = {state.me: True}
    if has_majority(state.votes, state.quorum):
        start_election(state)
        return
    _ask_all(state, Term(state.term + 1), pre=True)


def start_election(state: State, *, appointed: bool = False) -> None:
    """Take the next term and vote for this node; its own vote counts once it is on disk (D1)."""
    state.reset_election_deadline()
    state.end(Span.CANDIDACY)
    state.end(Span.TERM)
    state.role, state.leader = Role.CANDIDATE, None
    state.term = Term(state.term + 1)
    state.voted_for = state.me
    state.appointed = appointed
    state.persist()
    state.candidacy_sequence = state.hard_sequence
    state.changed()
    reads.leader_changed(state)
    _ask_all(state, state.term, pre=False)


def hard_state_persisted(state: State, event: HardStatePersisted) -> None:
    """Count this node's own vote if the vote of its candidacy is on disk now (D1)."""
    state.hard_persisted = max(state.hard_persisted, event.sequence)
    if state.role is Role.CANDIDATE and state.hard_persisted >= state.candidacy_sequence:
        state.votes[state.me] = True
        _count(state)


def vote_requested(state: State, request: VoteRequest) -> None:
    """Grant or refuse a vote; a granted real vote is on disk before its answer is sent (D1)."""
    if not membership.may_vote(state) or state.disk.health is DiskHealth.STALLED:
        return
    appointed = request.transfer and request.sender in state.peers
    if not appointed and (state.leader_is_alive() or state.has_promised()):
        _answer(state, request, granted=False)
        return
    if request.pre:
        granted = request.term > state.term and request.last >= state.log.last
        _answer(state, request, granted=granted)
        return
    if request.term > state.term:
        become_follower(state, request.term, None)
    granted = (
        request.term == state.term
        and state.role in (Role.FOLLOWER, Role.PRE_CANDIDATE)
        and state.leader is None
        and state.voted_for in (None, request.sender)
        and request.last >= state.log.last
    )
    if granted:
        become_follower(state, state.term, None)
        if state.voted_for is None:
            state.voted_for = request.sender
            state.persist()
        state.reset_election_deadline()
    _answer(state, request, granted=granted)


def vote_replied(state: State, reply: VoteReply) -> None:
    """Count one voter's answer to the candidacy that is still running (S7)."""
    if reply.term > state.term and not reply.granted:
        become_follower(state, reply.term, None)
        return
    if reply.sender not in state.voters:
        return
    wanted = Role.PRE_CANDIDATE if reply.pre else Role.CANDIDATE
    running = Term(state.term + 1) if reply.pre else state.term
    if state.role is not wanted or reply.request_term != running:
        return
    state.votes[reply.sender] = reply.granted
    _count(state)


def _count(state: State) -> None:
    yes = {voter for voter, granted in state.votes.items() if granted}
    if not has_majority(yes, state.quorum):
        return
    if state.role is Role.PRE_CANDIDATE:
        start_election(state)
    elif state.role is Role.CANDIDATE:
        leading.start(state)


def _ask_all(state: State, term: Term, *, pre: bool) -> None:
    request = VoteRequest(state.me, term, state.log.last, pre, state.appointed)
    for voter in state.voters:
        if voter != state.me:
            state.send(voter, request)


def _answer(state: State, request: VoteRequest, *, granted: bool) -> None:
    term = request.term if granted else state.term
    state.send(
        request.sender, VoteReply(state.me, term, request.term, granted=granted, pre=request.pre)
    )


def timeout_now(state: State, message: TimeoutNow) -> None:
    """Start an election at once: the leader appointed this node, so stickiness does not apply."""
    if transfer.may_stand(state, message.sender, message.term):
        start_election(state, appointed=True)


def leader_disconnected(state: State, spread: float = 0.0) -> None:
    """Shorten the election deadline: the leader's connection broke, so the leader may be dead.

    `spread`: seconds over which the elections of many groups are spread that lost their leaders at
    once; 0 for a single group.

    If the leader lives, no harm is done: its next heartbeat puts the deadline back, and nodes that
    still hear it refuse the pre-vote. A promise of this node to the leader is kept (lease.py).
    """
    state.heard_leader_at = float("-inf")
    free = max(state.now, state.promised_until)
    wide = max(1.0, spread / state.config.heartbeat_interval)
    soon = free + state.config.heartbeat_interval * (0.5 + wide * state.jitter())
    state.election_deadline = min(state.election_deadline, soon + state.standing_delay)
