"""Messages between nodes. `wire.py` turns these into frames and back.

The envelope (cluster id, group, sender, its incarnation) belongs to the connection's hello, not to
each message; `sender` here is filled in from it. Two links: `AppendEntries`, its reply and
`SnapshotChunk` travel on the bulk connection, all else on the control connection, so that
heartbeats and votes never queue behind data (L2).

A peer may answer late, and the process that asked may have been started again by then; the answer
comes on the new connection. Each pair says by itself which question is answered:

    VoteReply          `request_term`: a candidacy takes a term of its own, which is on disk before
                       it asks for votes (D1), so it is one candidacy of one life. A rehearsal takes
                       none: a late answer to one counts, and lets a node ask for real votes, which
                       are refused or granted by what holds then.
    AppendReply, HeartbeatReply, SnapshotReply
                       the term: it is led by one node in one life, as above, and answers count in
                       the term that the node leads (S7). They tell what the sender has on its disk,
                       which its own next life has, too; `matched` beyond that is never counted for
                       commit. A promise is kept across a restart of its sender (lease.py).
    ReadIndexReply, RangeReply
                       numbers that no other life of the node uses (request_ids.py)
    TimeoutNow         asks for nothing that is answered. The node that it appoints must follow the
                       sender in that term when it comes; then it stands by the log that it has.
    DiskReport         answers nothing; it is of its term, and the next one takes its place

Transfers and changes of the group are asked of the leader's own process, and end with it.
"""

from __future__ import annotations

from typing import Any

from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, Term, TermRun
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
    `configurations` flags those of the entries that change the group (R20). `when_written`: answer
    when it is written, and once more when it is flushed.
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
    configurations: tuple[ConfigurationEntry, ...] = ()
    when_written: bool = False


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
class SnapshotChunk:
    """Leader → a follower that needs entries which are deleted: the state that they led to.

    `anchor` is the last of them, `configuration` the group as it left it. The driver adds what
    the log keeps of it (`chain_crc`, `end`, `position`: log/log_start.py), `size` and `crc`
    of the whole state, and `data`: its bytes from `offset` on, none in an offer.
    """

    sender: NodeId
    term: Term
    anchor: EntryId
    configuration: Configuration
    offset: int
    chain_crc: int = 0
    end: int = -1
    position: int = -1
    size: int = 0
    crc: int = 0
    data: Any = None


@value
class SnapshotReply:
    """Follower → leader: `offset` bytes of the snapshot of that anchor are on disk here.

    `anchor` -1: the follower asks for a snapshot, because it cannot apply an entry otherwise.
    """

    sender: NodeId
    term: Term
    anchor: Index
    offset: int


@value
class Heartbeat:
    """Leader → all, on the control link. `round` counts up; an answer proves leadership then.

    `quiet`: the leader asks for silence, as its whole log is committed (quiet.py).
    """

    sender: NodeId
    term: Term
    commit: Index
    round: int
    quiet: bool = False


@value
class HeartbeatReply:
    """`matched`/`flushed` repeat the last append state of this term, so a lost reply is healed.

    `promise`: seconds from its receipt on in which the sender votes for nobody else; 0: none.
    `quiet`: the sender is quiet from now on (quiet.py).
    """

    sender: NodeId
    term: Term
    round: int
    matched: Index
    flushed: Index
    promise: float = 0.0
    quiet: bool = False


@value
class TimeoutNow:
    """Leader → its chosen successor: stand at once (dissertation 3.10)."""

    sender: NodeId
    term: Term


@value
class RangeRequest:
    """A replica asks a peer for its damaged entries: those behind `prev`, up to `last`.

    `size_max`: bytes of an answer, unless one entry has more.
    """

    sender: NodeId
    request_id: int
    prev: EntryId
    last: Index
    size_max: int


@value
class RangeReply:
    """Verified entries behind `prev`, as in AppendEntries; none (`last` == `prev.index`): not here.

    Without entries, a `prev` behind the one asked for says up to where the log is deleted there.
    Nothing follows from it for leadership or commit: it brings back what was here before.
    """

    sender: NodeId
    request_id: int
    prev: EntryId
    last: Index
    runs: tuple[TermRun, ...] = ()
    position: int = -1
    prev_chain_crc: int = 0
    size: int = 0
    data: Any = None


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


@value
class DiskReport:
    """Follower → leader, now and then: its disk, and the seconds that a sync takes there (L5)."""

    sender: NodeId
    term: Term
    health: DiskHealth
    sync_seconds: float


Message = (
    VoteRequest
    | VoteReply
    | AppendEntries
    | AppendReply
    | SnapshotChunk
    | SnapshotReply
    | Heartbeat
    | HeartbeatReply
    | TimeoutNow
    | RangeRequest
    | RangeReply
    | ReadIndexRequest
    | ReadIndexReply
    | DiskReport
)
