"""The leader's rules: opens its term with a no-op, heartbeats, counts acknowledgements.

    commit := the highest index that a majority has on disk, if its entry is of this term (S4)

An entry may be answered earlier where its proposer asked for that: when a majority has written it.
That is told and decides nothing (R22).

A leader that a majority does not answer any more, or whose followers answer heartbeats while the
data sent to them does not move (R5), gives up (check-quorum, L1).
"""

from __future__ import annotations

from collections import deque

from dledger.core import lease, membership, quiet, reads, snapshot_sending, transfer
from dledger.core.effects import (
    AppendLocal,
    AppendNoop,
    CommitAdvanced,
    ProposalRejected,
    SendAppend,
    WrittenAdvanced,
)
from dledger.core.events import AppendSent, CommitWanted, MembershipRequested, ProposalReceived
from dledger.core.messages import AppendReply, Heartbeat, HeartbeatReply
from dledger.core.progress import Mode, Progress
from dledger.core.quorum import agreed, has_majority
from dledger.core.span import Span
from dledger.core.state import State
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, Reason, Role

#: Looked up on the class a member of an enum costs ten times as much, and here it is asked for
#: several times per entry.
_PROBE, _REPLICATE, _SNAPSHOT = Mode.PROBE, Mode.REPLICATE, Mode.SNAPSHOT
_LEADER, _FAILED = Role.LEADER, Role.FAILED
_FULL = DiskHealth.FULL
#: Sent at a time to a follower whose disk is full, which may have no space for it.
FULL_FRAME_BYTES_MAX = 64 << 10


def start(state: State) -> None:
    """Won: fresh view of every follower (S5), no-op, heartbeats at once."""
    last = state.log.last
    state.role, state.leader = Role.LEADER, state.me
    state.end(Span.CANDIDACY)
    state.quorum_at = state.now
    membership.leadership_began(state)
    state.progress = _views(state)
    state.round_confirmed = state.round
    state.noop_index = Index(last.index + 1)
    state.log.append(state.term, state.noop_index)
    state.out.append(AppendNoop(state.noop_index, state.term))
    state.changed()
    state.beat()
    for peer, progress in state.progress.items():
        replicate(state, peer, progress)


def _views(state: State) -> dict[NodeId, Progress]:
    """A fresh Progress of each follower, without data of an earlier leadership (S5)."""
    following = Index(state.log.last.index + 1)
    return {peer: Progress(following, state.now, state.now) for peer in state.peers}


def stop(state: State) -> None:
    """End the leadership: answer the waiting calls, then drop its views, reads and plans."""
    reads.refuse_all(state)
    if state.asked_quiet:
        state.broadcast()  # who is quiet because of this leader looks for the next one
    transfer.leadership_ended(state)
    membership.leadership_ended(state)
    state.end(Span.LEADERSHIP)
    state.adopt()  # who was removed is sent nothing any more
    state.reset_election_deadline()


def propose(state: State, event: ProposalReceived) -> None:
    """Give the entries their indexes, or reject them: then none was or will be appended."""
    reason = _refusal(state, event.size, frees_space=event.frees_space)
    if reason is not None:
        state.out.append(ProposalRejected(event.payload, reason, state.leader))
        return
    first = Index(state.log.last.index + 1)
    last = Index(first + event.count - 1)
    state.log.append(state.term, last)
    if state.uncommitted is None:
        state.uncommitted = deque()
    state.uncommitted.append((last, event.size))
    state.uncommitted_bytes += event.size
    state.proposed_bytes += event.size
    state.out.append(AppendLocal(first, last, state.term, event.payload))
    if event.when_written:
        state.written_wanted = last
        _advance_written(state)  # this node may be a majority
    for peer, progress in state.progress.items():
        replicate(state, peer, progress)


def change_members(state: State, event: MembershipRequested) -> None:
    """Append a configuration and send it, or say why not."""
    if membership.requested(state, event):
        for peer, progress in state.progress.items():
            replicate(state, peer, progress)


def _refusal(state: State, size: int, *, frees_space: bool) -> Reason | None:
    if state.role is _FAILED:
        return Reason.DISK_ERROR
    if state.role is not _LEADER:
        return Reason.NOT_LEADER
    if state.transfer is not None:
        return Reason.LEADER_TRANSFERRING
    if (state.disk.health is _FULL or state.full_voters) and not frees_space:
        return Reason.DISK_FULL
    if state.commit < state.noop_index:
        return Reason.LEADER_NOT_READY
    over = state.uncommitted_bytes + size > state.config.uncommitted_bytes_max
    if over and state.uncommitted:
        return Reason.LEADER_PENDING_FULL
    return None


def replicate(state: State, peer: NodeId, progress: Progress) -> None:
    """Send the next range to a follower, if there is one and the window allows."""
    if progress.sending:
        return
    config, last = state.config, state.log.last.index
    empty = False
    if progress.mode is _PROBE:
        if progress.probe_at is not None:
            return
        progress.probe_at = state.now
        empty = progress.empty_probe or progress.next > last
    elif (
        progress.next > last
        or progress.mode is _SNAPSHOT
        or not progress.is_window_open(state.now, config)
    ):
        return
    size_max = config.frame_bytes_max
    if progress.disk_health is _FULL:  # what finds no space there is not read and sent for nothing
        if progress.in_flight:
            return
        size_max = min(size_max, FULL_FRAME_BYTES_MAX)
    previous = Index(progress.next - 1)
    term = state.log.term_at(previous)
    if term is None:
        snapshot_sending.begin(state, peer, progress)
        return
    progress.sending = True
    state.out.append(
        SendAppend(
            peer,
            state.term,
            EntryId(term, previous),
            last,
            size_max,
            state.commit,
            empty,
            state.hard_sequence,
            state.written_wanted >= progress.next,
        )
    )


def append_sent(state: State, event: AppendSent) -> None:
    """Note the range that fitted into the frame; send more while the window has space."""
    peer = event.to
    progress = state.progress.get(peer)
    if progress is None or not progress.sending:
        return
    progress.sending = False
    if progress.mode is _REPLICATE:  # a probe's range counts only when it is answered
        progress.sent(event.last, event.size)
        if event.last < state.log.last.index:  # it did not fit into one frame
            replicate(state, peer, progress)


def append_replied(state: State, reply: AppendReply) -> None:
    """A follower of this term answers (other terms were sorted out before)."""
    progress = state.progress.get(reply.sender)
    if progress is None:
        return
    progress.heard_at = state.now
    if reply.success:
        if reply.matched > state.log.last.index:
            return  # not of this log: a wiped or foreign node; it is not counted
        _acknowledged(state, reply.sender, progress, reply.matched, reply.flushed)
        if progress.mode is _PROBE or (
            progress.mode is _SNAPSHOT and progress.next >= state.log.first
        ):
            progress.become_replicate()
    else:
        _rejected(state, reply, progress)
    replicate(state, reply.sender, progress)


def _rejected(state: State, reply: AppendReply, progress: Progress) -> None:
    """The follower lacks the entry before the range: go back by whole terms, and ask there."""
    if reply.prev_index <= progress.flushed:  # late as a rule, and never a reason to count less
        progress.rejected_settled(reply.prev_index)
        return
    if progress.mode is _SNAPSHOT:
        return  # an answer to what was asked before
    if progress.mode is _PROBE and reply.prev_index != progress.next - 1:
        return  # an answer to an earlier question
    meet = state.log.floor(reply.conflict.term, reply.conflict.index)
    following = max(Index(meet.index + 1), Index(progress.flushed + 1))
    progress.become_probe(next_index=min(following, Index(reply.prev_index)))


def heartbeat_replied(state: State, reply: HeartbeatReply) -> None:
    """Proof that a follower still follows; also repeats its append state (L3).

    A follower that reports less than it had on disk began anew, and counts as matched by an answer
    of its former process. It follows no commit (R4) until a range tells it where the logs meet, so
    it is probed when there is nothing to send. While there is, its answer to that tells (and one to
    a heartbeat, on another connection, may be older than the newest one to entries).
    """
    progress = state.progress.get(reply.sender)
    if progress is None:
        return
    progress.heard_at = state.now
    progress.round = max(progress.round, reply.round)
    if reply.promise and state.config.lease_reads:
        lease.promised(state, progress, reply)
    if reply.matched <= state.log.last.index and reply.matched >= 0:
        _acknowledged(state, reply.sender, progress, reply.matched, reply.flushed)
    settled = progress.flushed == state.log.last.index
    if settled and reply.matched < progress.flushed and progress.mode is _REPLICATE:
        progress.become_probe()
    reads.rounds_moved(state)
    replicate(state, reply.sender, progress)
    quiet.answered(state, reply)


def _acknowledged(
    state: State, peer: NodeId, progress: Progress, matched: Index, flushed: Index
) -> None:
    if not progress.acknowledged(matched, flushed, state.now):
        return
    if flushed > state.commit:  # else a majority was there before it: nothing to count
        advance_commit(state)
    if state.written < state.written_wanted:
        _advance_written(state)
    if state.transfer is not None:
        transfer.progressed(state, peer)


def advance_commit(state: State) -> None:
    """Figure 2, last rule for leaders: only an entry of the current term is counted (S4)."""
    flushed: dict[NodeId, int] = {peer: p.flushed for peer, p in state.progress.items()}
    flushed[state.me] = state.flushed
    index = Index(agreed(flushed, state.quorum))
    if index <= state.commit or state.log.term_at(index) != state.term:
        return
    was_ready = state.commit >= state.noop_index
    state.commit_to(index)
    while state.uncommitted and state.uncommitted[0][0] <= index:
        state.uncommitted_bytes -= state.uncommitted.popleft()[1]
    if not state.uncommitted:
        state.uncommitted = None
    state.out.append(CommitAdvanced(index))
    if not was_ready and index >= state.noop_index:
        reads.leader_ready(state)
    if state.change is not None and index >= state.configuration_index:
        membership.committed(state)
        if state.me not in state.voters:
            transfer.resign(state)
    if state.transfer is not None:
        transfer.progressed(state, state.transfer.to)


def _advance_written(state: State) -> None:
    """Advance `written`: entries written by a majority, synced or not; no commit (R22)."""
    written: dict[NodeId, int] = {peer: p.matched for peer, p in state.progress.items()}
    written[state.me] = state.log.last.index
    index = Index(agreed(written, state.quorum))
    if index > max(state.written, state.commit):
        state.written = index
        state.out.append(WrittenAdvanced(index))


def heartbeat_due(state: State) -> bool:
    """Timer of a leader: heartbeats, check-quorum, resends. False: the leader must give up."""
    if state.now < state.heartbeat_deadline:
        return True
    alive = {peer for peer, progress in state.progress.items() if is_alive(state, progress)}
    if has_majority(alive | {state.me}, state.quorum):
        state.quorum_at = state.now
    elif state.now - state.quorum_at >= state.config.election_timeout_max:
        return False
    if transfer.has_resigned(state):
        return False
    quiet.tick(state)
    state.beat()
    find_full(state)
    reads.rounds_moved(state)
    membership.tick(state)
    for peer, progress in state.progress.items():
        _resend(state, peer, progress)
    transfer.tick(state)
    quiet.settle(state)
    return True


def commit_wanted(state: State, event: CommitWanted) -> None:
    """Repeat the last heartbeat to one follower, with the commit of now.

    Its round is the last one's: an answer proves no more than one to that heartbeat, and a promise
    in it counts from when that was sent (lease.py).
    """
    if state.role is _LEADER and event.to in state.progress and state.round > 0:
        state.send(event.to, Heartbeat(state.me, state.term, state.commit, state.round))


def is_alive(state: State, progress: Progress) -> bool:
    """True if this follower answers, and makes progress with the entries sent to it (R5).

    A follower with a full disk counts as alive: no other leader would help it.
    """
    config = state.config
    if state.now - progress.heard_at >= config.election_timeout_min:
        return False
    outstanding = progress.flushed < min(progress.next - 1, state.log.last.index)
    stalled = state.now - progress.progress_at >= config.election_timeout_max * config.stall_factor
    return not (outstanding and stalled) or progress.disk_health is _FULL


def find_full(state: State) -> None:
    """Which voters' full disks leave no majority that takes more of the log; none as a rule.

    Who is not heard takes nothing either. Without a full disk among those that are heard it is
    silence alone, which may end at any moment: then proposals are taken and wait.
    """
    silence_max = state.config.election_timeout_min
    heard = {
        peer: progress.disk_health
        for peer, progress in state.progress.items()
        if peer in state.voters and state.now - progress.heard_at < silence_max
    }
    full = tuple(sorted(peer for peer, health in heard.items() if health is DiskHealth.FULL))
    takers = {state.me, *heard}.difference(full)
    state.full_voters = full if full and not has_majority(takers, state.quorum) else ()


def _resend(state: State, peer: NodeId, progress: Progress) -> None:
    """Silence on outstanding data: ask where the follower is, instead of sending it all again."""
    settled = progress.flushed == state.log.last.index
    if settled:
        progress.progress_at = state.now  # nothing is outstanding, so nothing can stall
    if progress.mode is _SNAPSHOT:
        snapshot_sending.tick(state, peer, progress)
    elif progress.mode is _PROBE:
        if progress.probe_at is not None and (
            state.now - progress.probe_at >= state.config.heartbeat_interval
        ):
            progress.probe_at = None
            progress.empty_probe = True
    elif not settled and state.now - progress.progress_at >= state.config.resend_timeout:
        progress.become_probe()
    replicate(state, peer, progress)


def disconnected(state: State, peer: NodeId) -> None:
    """Probe `peer` again: ranges in flight to it may be lost."""
    progress = state.progress.get(peer)
    if progress is not None and progress.mode is _REPLICATE:
        progress.become_probe()
