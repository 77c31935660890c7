"""Linearizable reads by ReadIndex (dissertation 6.4), on the leader and through it on any replica.

    1 the leader has committed an entry of its term (its no-op), else the read waits
    2 read index := commit
    3 a heartbeat round that began afterwards is answered by a majority, in this term
    4 the read may be served by a replica that has applied up to the read index

One round is out at a time; reads that come meanwhile share the next one. Where leases are on and
the leader has one, it needs no round (lease.py).
"""

from __future__ import annotations

from dledger.core import lease
from dledger.core.effects import ReadReady, ReadRefused
from dledger.core.events import ReadRequested
from dledger.core.messages import ReadIndexReply, ReadIndexRequest
from dledger.core.quorum import agreed
from dledger.core.span import Span
from dledger.core.state import PendingRead, State
from dledger.core.types import NO_INDEX, Index, NodeId, Reason, Role


def requested(state: State, event: ReadRequested) -> None:
    """A reader on this node."""
    read_id = event.read_id
    if state.role is Role.LEADER:
        _queue(state, read_id, None)
    elif state.role is Role.FOLLOWER and state.leader is not None:
        state.asked_reads[read_id] = state.now + state.config.election_timeout_max
        state.send(state.leader, ReadIndexRequest(state.me, state.term, read_id))
    else:
        reason = Reason.DISK_ERROR if state.role is Role.FAILED else Reason.NOT_LEADER
        state.out.append(ReadRefused(read_id, reason, state.leader))


def request_received(state: State, request: ReadIndexRequest) -> None:
    """A reader on a follower asks through us."""
    if state.role is Role.LEADER and request.term == state.term:
        _queue(state, request.read_id, request.sender)
        return
    _refuse(state, PendingRead(request.read_id, request.sender, NO_INDEX, 0))


def reply_received(state: State, reply: ReadIndexReply) -> None:
    """The leader answered our question, if we still ask it."""
    if state.asked_reads.pop(reply.read_id, None) is None:
        return
    if reply.index >= 0:
        state.out.append(ReadReady(reply.read_id, reply.index))
    else:
        state.out.append(ReadRefused(reply.read_id, Reason.NOT_LEADER, state.leader))


def _queue(state: State, read_id: int, origin: NodeId | None) -> None:
    """Serve the read by the lease, or bind it to a round that begins now or later."""
    if state.config.lease_reads and lease.holds(state):
        state.reads_by_lease += 1
        _serve(state, PendingRead(read_id, origin, state.commit, 0))
        return
    state.reads_by_index += 1
    if state.commit < state.noop_index:
        state.reads.append(PendingRead(read_id, origin, NO_INDEX, 0))
        return
    waiting = any(read.round > state.round_confirmed for read in state.reads if read.round)
    state.reads.append(PendingRead(read_id, origin, state.commit, state.round + 1))
    if not waiting:
        state.broadcast()
        rounds_moved(state)


def leader_ready(state: State) -> None:
    """The no-op is committed: reads that waited for it take the commit index of now."""
    early = [read for read in state.reads if read.round == 0]
    if not early:
        return
    for read in early:
        read.index, read.round = state.commit, state.round + 1
    state.broadcast()
    rounds_moved(state)


def rounds_moved(state: State) -> None:
    """Serve every read with a round that a majority answered; start the next round if one waits."""
    if not state.reads:
        return  # the round that is confirmed is looked up for reads alone
    rounds: dict[NodeId, int] = {peer: p.round for peer, p in state.progress.items()}
    rounds[state.me] = state.round
    state.round_confirmed = max(state.round_confirmed, agreed(rounds, state.quorum))
    left = []
    for read in state.reads:
        if read.round and read.round <= state.round_confirmed:
            _serve(state, read)
        else:
            left.append(read)
    state.reads = left
    if any(read.round > state.round for read in left):
        idle = not any(state.round_confirmed < r.round <= state.round for r in left)
        if idle:
            state.broadcast()


def _serve(state: State, read: PendingRead) -> None:
    assert read.index <= state.commit
    if read.origin is None:
        state.out.append(ReadReady(read.read_id, read.index))
    else:
        reply = ReadIndexReply(state.me, state.term, read.read_id, read.index)
        state.send(read.origin, reply)


def _refuse(state: State, read: PendingRead) -> None:
    if read.origin is None:
        state.out.append(ReadRefused(read.read_id, Reason.NOT_LEADER, state.leader))
    else:
        state.send(read.origin, ReadIndexReply(state.me, state.term, read.read_id, Index(-1)))


def refuse_all(state: State) -> None:
    """Refuse all reads: the leadership is over, so it cannot be proved to them any more."""
    for read in state.reads:
        _refuse(state, read)


def leader_changed(state: State) -> None:
    """Questions to a leader that is no more will not be answered."""
    asked = state.asked_reads
    state.end(Span.LEADER)
    for read_id in asked:
        state.out.append(ReadRefused(read_id, Reason.NOT_LEADER, state.leader))


def tick(state: State) -> None:
    """Give up questions that were not answered within an election timeout."""
    late = [read_id for read_id, deadline in state.asked_reads.items() if deadline <= state.now]
    for read_id in late:
        del state.asked_reads[read_id]
        state.out.append(ReadRefused(read_id, Reason.TIMEOUT, state.leader))


def deadline(state: State) -> float:
    """When the first read that was asked of the leader is given up; infinite when there is none."""
    return min(state.asked_reads.values()) if state.asked_reads else float("inf")
