"""A follower's handling of a range of the leader's log (paper 5.3).

    prev not here, or of another term   reject, say where the logs may meet
    entries already here                nothing to do: a late or repeated range shrinks nothing (S2)
    another term at some index          the only reason ever to drop a suffix; never below commit
    new entries                         append; acknowledge when they are on disk (D3); before,
                                        too, if the leader asks, as written and not as flushed

`commit` follows the leader's, but never beyond what matched *this* leader in *this* term (R4).
"""

from __future__ import annotations

from dledger.core import disk, election, lease, membership, quiet
from dledger.core.effects import AppendReceived, CommitAdvanced, TruncateAfter
from dledger.core.messages import AppendEntries, AppendReply, Heartbeat, HeartbeatReply
from dledger.core.state import State
from dledger.core.types import NO_ENTRY, NO_INDEX, DiskHealth, EntryId, Index, NodeId, Role, Term

_FOLLOWER = Role.FOLLOWER  # looked up on the class it costs ten times as much


class SafetyViolation(AssertionError):
    """A rule that must never break is about to: stop instead (S3, S10)."""


def append_received(state: State, message: AppendEntries) -> None:
    """Check the term when executed, not only on arrival (S1); then take the range in."""
    if message.term < state.term:
        _reply(state, message, success=False, conflict=NO_ENTRY)
        return
    follow(state, message.sender, message.term)
    if state.log.term_at(message.prev.index) != message.prev.term:
        if message.prev.index < state.log.anchor.index:  # decided, and deleted here
            state.matched = max(state.matched, state.log.anchor.index)
            _reply(state, message, success=True, conflict=NO_ENTRY)
            return
        _reply(state, message, success=False, conflict=_where_logs_may_meet(state, message.prev))
        return
    agreed = message.prev.index
    if agreed < state.log.last.index:  # else everything in the range is new
        agreed = state.log.agree_through(agreed, message.runs)
    if agreed < message.last:
        if agreed < state.log.last.index:
            _truncate(state, agreed)
        _append(state, message, Index(agreed + 1))
    state.matched = max(state.matched, message.last)
    _follow_commit(state, message.commit)
    if message.when_written or state.flushed >= message.last:
        _reply(state, message, success=True, conflict=NO_ENTRY)


def heartbeat_received(state: State, message: Heartbeat) -> None:
    """The leader lives. A stale one learns the newer term from the answer."""
    promise = 0.0
    answered, is_quiet = 0, False
    if message.term >= state.term:
        follow(state, message.sender, message.term)
        _follow_commit(state, message.commit)
        if membership.may_promise(state):
            answered = message.round
            if state.config.lease_reads:
                promise = lease.promise(state)
        if message.quiet or state.quiet:
            is_quiet = quiet.asked(state, message)
    flushed = _acknowledged(state)
    state.send(
        message.sender,
        HeartbeatReply(
            state.me, state.term, answered, Index(state.matched), flushed, promise, is_quiet
        ),
    )


def entries_flushed(state: State) -> None:
    """Follower: everything up to `flushed` is on disk, tell the leader (D3)."""
    if state.role is not _FOLLOWER or state.leader is None or state.matched == NO_INDEX:
        return
    flushed = _acknowledged(state)
    reply = AppendReply(state.me, state.term, True, NO_INDEX, state.matched, flushed, NO_ENTRY)
    state.send(state.leader, reply)


def follow(state: State, leader: NodeId, term: Term) -> None:
    """A message of the leader of `term`: it lives."""
    if term != state.term or leader != state.leader or state.role is not _FOLLOWER:
        _begin_to_follow(state, leader, term)
    state.heard_leader_at = state.now
    state.reset_election_deadline()


def _begin_to_follow(state: State, leader: NodeId, term: Term) -> None:
    if term == state.term and state.role is Role.LEADER:
        raise SafetyViolation(f"{leader} and {state.me} both lead term {term}")
    if term == state.term and state.leader not in (None, leader):
        raise SafetyViolation(f"{leader} and {state.leader} both lead term {term}")
    election.become_follower(state, term, leader)
    if state.disk.health is not DiskHealth.GOOD:
        disk.tell(state, leader)  # before it takes what this node has no space for


def _where_logs_may_meet(state: State, prev: EntryId) -> EntryId:
    last = state.log.last.index
    if prev.index > last:
        return state.log.floor(prev.term, last)
    return state.log.floor(prev.term, prev.index - 1)


def _truncate(state: State, index: Index) -> None:
    if index < state.commit:
        raise SafetyViolation(
            f"{state.me} is asked to drop entries above {index}, but {state.commit} is committed"
        )
    state.out.append(TruncateAfter(index))
    state.log.truncate_after(index)
    state.flushed = min(state.flushed, index)
    state.matched = min(state.matched, index)
    if state.configuration_index > index:
        membership.truncated(state, index)


def _append(state: State, message: AppendEntries, first: Index) -> None:
    assert first == state.log.last.index + 1
    for run in message.runs:
        if run.last >= first:
            state.log.append(run.term, run.last)
    assert state.log.last.index == message.last
    state.out.append(AppendReceived(message, first))
    for entry in message.configurations:
        if entry.index >= first:
            membership.appended(state, entry)


def _follow_commit(state: State, leader_commit: Index) -> None:
    commit = min(leader_commit, state.matched)
    if commit > state.commit:
        state.commit_to(Index(commit))
        state.out.append(CommitAdvanced(state.commit))


def _acknowledged(state: State) -> Index:
    """Up to where the leader may count this node's log as on disk."""
    return min(state.flushed, state.matched) if membership.may_promise(state) else NO_INDEX


def _reply(state: State, message: AppendEntries, *, success: bool, conflict: EntryId) -> None:
    state.send(
        message.sender,
        AppendReply(
            state.me,
            state.term,
            success=success,
            prev_index=message.prev.index,
            matched=state.matched,
            flushed=_acknowledged(state),
            conflict=conflict,
        ),
    )
