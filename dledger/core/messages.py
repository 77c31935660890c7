"""What nodes say to each other. `wire.py` turns these into frames and back.

The envelope (cluster id, group, sender, its incarnation) belongs to the connection's hello, not to
each message; `sender` here is filled in from it. Two lanes: `AppendEntries` and its reply travel on
the bulk connection, all else on the control connection, so that heartbeats and votes never queue
behind data (L2).
"""

from __future__ import annotations

from typing import Any

from dledger.core.types import EntryId, Index, NodeId, Term, TermRun
from dledger.core.value import value


@value
class VoteRequest:
    """RequestVote, or its rehearsal when `pre` (dissertation 9.6).

    A pre-vote carries the term the candidate *would* take; nobody's term changes by it.
    `transfer` marks a candidate that the leader itself appointed: stickiness does not apply.
    """

    sender: NodeId
    term: Term
    last: EntryId
    pre: bool
    transfer: bool = False


@value
class VoteReply:
    """Answer to one candidacy. `term`: of the request when granted, else the voter's own.

    `request_term` names the candidacy that is answered, so that a late answer is not counted in
    another one.
    """

    sender: NodeId
    term: Term
    request_term: Term
    granted: bool
    pre: bool


@value
class AppendEntries:
    """A byte range of the leader's log: whole records `first`..`last`, maybe none (a probe).

    `prev` is the entry just before `first` (so `first == prev.index + 1`, also when empty) and
    `prev_chain_crc` its checksum (R19). `runs` gives the terms of the entries. `position` is the
    byte address of the range's first byte (a leading blank included) and `data` the bytes, or in a
    message just built by the core None: the driver adds them from storage.
    """

    sender: NodeId
    term: Term
    prev: EntryId
    last: Index
    commit: Index
    runs: tuple[TermRun, ...] = ()
    position: int = -1
    prev_chain_crc: int = 0
    size: int = 0
    data: Any = None


@value
class AppendReply:
    """Follower → leader.

    success: everything up to `matched` equals the leader's log; `flushed` ≤ `matched` is on disk
    here and counts for commit (D3).
    failure: the follower has no `prev`; `conflict` is where to look next: its entry at or before
    `prev` that may match (the last entry of a term ≤ the wanted one), for back-off by whole terms.
    """

    sender: NodeId
    term: Term
    success: bool
    prev_index: Index
    matched: Index
    flushed: Index
    conflict: EntryId


@value
class Heartbeat:
    """Leader → all, on the control lane. `round` counts up; an answer proves leadership then."""

    sender: NodeId
    term: Term
    commit: Index
    round: int


@value
class HeartbeatReply:
    """`matched`/`flushed` repeat the last append state of this term, so a lost reply is healed."""

    sender: NodeId
    term: Term
    round: int
    matched: Index
    flushed: Index


@value
class TimeoutNow:
    """Leader → its chosen successor: stand at once (dissertation 3.10)."""

    sender: NodeId
    term: Term


@value
class ReadIndexRequest:
    """A replica asks the leader up to where a read must wait (dissertation 6.4)."""

    sender: NodeId
    term: Term
    read_id: int


@value
class ReadIndexReply:
    """`index` -1: refused (not the leader, or it could not prove that it still is)."""

    sender: NodeId
    term: Term
    read_id: int
    index: Index


Message = (
    VoteRequest
    | VoteReply
    | AppendEntries
    | AppendReply
    | Heartbeat
    | HeartbeatReply
    | TimeoutNow
    | ReadIndexRequest
    | ReadIndexReply
)
