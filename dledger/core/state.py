"""Everything a node knows, and the few steps that several rules share.

Only `RaftNode.handle` makes these change. The rules are functions over this state, one file per
subject: `election`, `replication`, `leading`, `reads`, `transfer`.

    flushed ≤ last        what this node has on disk
    commit  ≤ last        what is decided; follower: only as far as `matched` (R4)
    matched ≤ last        follower: how far the log equals this term's leader's
    hard_persisted ≤ hard_sequence
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from dledger.core.config import CoreConfig
from dledger.core.configuration import INITIAL, Configuration, ConfigurationEntry
from dledger.core.effects import Effect, PersistHardState, RoleChanged, Send
from dledger.core.events import DiskChecked
from dledger.core.log_view import LogView
from dledger.core.messages import Heartbeat, Message
from dledger.core.progress import Progress
from dledger.core.span import CANDIDACY, LEADER, LEADERSHIP, NODE, TERM, Span, fresh, span_of
from dledger.core.types import NO_INDEX, DiskHealth, HardState, Index, NodeId, Role, Term


@dataclass(slots=True)
class PendingRead:
    """A read that waits for proof of leadership by round `round`, for us or for a follower."""

    read_id: int
    origin: NodeId | None
    index: Index
    round: int


@dataclass(slots=True)
class Transfer:
    """Leadership is being handed to `to`; new proposals are refused until `deadline`."""

    to: NodeId
    transfer_id: int | None
    deadline: float
    told: bool = False


@dataclass(slots=True)
class PendingChange:
    """A change of the group that is appended and not committed; `node`: the changed member."""

    change_id: int | None
    node: NodeId
    removes: bool


@dataclass(slots=True)
class SlowDisk:
    """Is our disk slower than others'? (disk.py)

    After it handed over for that, it is slow until `until`, and longer while a sync takes more
    than `limit` seconds.
    """

    until: float = float("-inf")
    limit: float = 0.0


@dataclass(slots=True)
class Lease:
    """A leader's data for lease reads, beside `Progress.promised_until` (lease.py).

    `given_up`: there is no lease any more in this leadership; `sent_at`: when each of the last
    rounds was sent.
    """

    given_up: bool = False
    sent_at: dict[int, float] = field(default_factory=dict)

    def sent(self, number: int, now: float, span: float) -> None:
        """Note when a round was sent; forget rounds sent more than `span` seconds ago."""
        self.sent_at[number] = now
        while self.sent_at[oldest := next(iter(self.sent_at))] < now - span:
            del self.sent_at[oldest]


@dataclass(slots=True)
class State:
    """One node's state; relations: the module's text, how long each is known: span.py."""

    config: CoreConfig
    jitter: Callable[[], float]
    term: Term
    voted_for: NodeId | None
    incarnation: int
    #: This incarnation began on the log of one that lost its votes or its flush mark (R6).
    forgot: bool
    log: LogView
    flushed: Index
    commit: Index
    initial: Configuration
    configurations: list[ConfigurationEntry]
    role: Role = field(default=Role.FOLLOWER, metadata=NODE)
    leader: NodeId | None = field(default=None, metadata=NODE)
    failure: str = field(default="", metadata=NODE)
    #: How our disk does, and how much longer we wait for others to stand because of that.
    disk: DiskChecked = field(default_factory=lambda: DiskChecked(DiskHealth.GOOD), metadata=NODE)
    slow_disk: SlowDisk = field(default_factory=SlowDisk, metadata=NODE)
    standing_delay: float = field(default=0.0, metadata=NODE)

    hard_sequence: int = field(default=0, metadata=NODE)
    hard_persisted: int = field(default=0, metadata=NODE)

    election_deadline: float = field(default=0.0, metadata=NODE)
    heard_leader_at: float = field(default=float("-inf"), metadata=NODE)
    #: As a voter: no vote before (lease.py).
    promised_until: float = field(default=float("-inf"), metadata=NODE)
    votes: dict[NodeId, bool] = field(default_factory=dict, metadata=CANDIDACY)
    candidacy_sequence: int = field(default=0, metadata=CANDIDACY)
    appointed: bool = field(default=False, metadata=CANDIDACY)

    matched: Index = field(default=NO_INDEX, metadata=TERM)
    #: The first entry that is damaged here, -1 for none: nothing from it on counts as flushed (R2).
    damaged: Index = field(default=NO_INDEX, metadata=NODE)
    #: A state of the log up to this entry or a later one is needed here, -1: none is.
    unreadable: Index = field(default=NO_INDEX, metadata=NODE)

    heartbeat_deadline: float = field(default=0.0, metadata=LEADERSHIP)
    quorum_at: float = field(default=0.0, metadata=LEADERSHIP)
    progress: dict[NodeId, Progress] = field(default_factory=dict, metadata=LEADERSHIP)
    noop_index: Index = field(default=NO_INDEX, metadata=LEADERSHIP)
    uncommitted: deque[tuple[Index, int]] | None = field(default=None, metadata=LEADERSHIP)
    uncommitted_bytes: int = field(default=0, metadata=LEADERSHIP)
    #: Bytes that were proposed in this leadership.
    proposed_bytes: int = field(default=0, metadata=LEADERSHIP)
    transfer: Transfer | None = field(default=None, metadata=LEADERSHIP)
    #: How far a majority has written, as it told; how far callers want to know that.
    written: Index = field(default=NO_INDEX, metadata=LEADERSHIP)
    written_wanted: Index = field(default=NO_INDEX, metadata=LEADERSHIP)
    #: Voters whose full disks leave no majority that takes more of the log (disk.py).
    full_voters: tuple[NodeId, ...] = field(default=(), metadata=LEADERSHIP)
    #: Since when the leader's syncs are too slow (disk.py).
    slow_since: float | None = field(default=None, metadata=LEADERSHIP)

    #: Counts up over all leaderships: the echo of an earlier one proves nothing in this one.
    round: int = field(default=0, metadata=NODE)
    round_confirmed: int = field(default=0, metadata=LEADERSHIP)
    reads: list[PendingRead] = field(default_factory=list, metadata=LEADERSHIP)
    asked_reads: dict[int, float] = field(default_factory=dict, metadata=LEADER)
    lease: Lease = field(default_factory=Lease, metadata=LEADERSHIP)
    #: As leader, in all its leaderships: served by a lease, asked of a majority.
    reads_by_lease: int = field(default=0, metadata=NODE)
    reads_by_index: int = field(default=0, metadata=NODE)

    #: Peers with hosts that watch each other, None: there are no hosts; no heartbeats are expected
    #: now. As leader: what was the same since when, and the round that asked for silence, 0: none.
    watched: frozenset[NodeId] | None = field(default=None, metadata=NODE)
    quiet: bool = field(default=False, metadata=LEADER)
    calm: tuple[int, ...] | None = field(default=None, metadata=LEADERSHIP)
    calm_since: float = field(default=0.0, metadata=LEADERSHIP)
    asked_quiet: int = field(default=0, metadata=LEADERSHIP)

    #: A change that is not committed; removed nodes that are told so, until when.
    change: PendingChange | None = field(default=None, metadata=LEADERSHIP)
    leaving: dict[NodeId, float] = field(default_factory=dict, metadata=LEADERSHIP)

    now: float = field(default=0.0, metadata=NODE)
    out: list[Effect] = field(default_factory=list, metadata=NODE)

    #: Of the configuration in effect; every message asks for them. `peers`: who is sent the log.
    me: NodeId = field(init=False)
    configuration: Configuration = field(init=False)
    configuration_index: Index = field(init=False)
    voters: tuple[NodeId, ...] = field(init=False)
    quorum: tuple[NodeId, ...] = field(init=False)
    peers: tuple[NodeId, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.me = self.config.node_id
        self.adopt()

    def adopt(self) -> None:
        """The newest configuration of the log counts, committed or not (R20)."""
        index, configuration = INITIAL, self.initial
        if self.configurations:
            index, found = self.configurations[-1]
            assert found is not None
            configuration = found
        self.configuration, self.configuration_index = configuration, index
        self.voters, self.quorum = configuration.voters, configuration.quorum
        others = tuple(name for name in configuration.names if name != self.me)
        self.peers = (*others, *self.leaving)

    def commit_to(self, index: Index) -> None:
        """Set the commit index; no other line does. Asserts that it never goes back (S3)."""
        assert index >= self.commit, f"commit would go back from {self.commit} to {index}"
        self.commit = index

    def end(self, span: Span) -> None:
        """End `span`: set the fields that are valid only in it back to their defaults."""
        for one in _FIELDS[span]:
            setattr(self, one.name, fresh(one))

    def send(self, to: NodeId, message: Message) -> None:
        """Queue a message; it may leave once the newest hard state is on disk (D1)."""
        self.out.append(Send(to, message, self.hard_sequence))

    def persist(self) -> None:
        """Persist term and vote after a change: no message leaves before they are on disk."""
        self.hard_sequence += 1
        state = HardState(self.term, self.voted_for, self.incarnation, self.forgot)
        self.out.append(PersistHardState(self.hard_sequence, state))

    def reset_election_deadline(self) -> None:
        """Draw a new election deadline: from now the shortest to the longest time-out, and more for
        a node with an unhealthy disk.
        """
        low, high = self.config.election_timeout_min, self.config.election_timeout_max
        self.election_deadline = self.now + low + (high - low) * self.jitter() + self.standing_delay

    def beat(self) -> None:
        """The heartbeat of the timer, and when the next one is due."""
        self.heartbeat_deadline = self.now + self.config.heartbeat_interval
        self.broadcast(quiet=self.asked_quiet > 0)

    def broadcast(self, *, quiet: bool = False) -> None:
        """Send one heartbeat to every peer; its round proves leadership from here on.

        Reads ask for it as often as they like. It does not put the timer off: what the timer does
        beside (check-quorum, resends, transfers) would never happen under a stream of reads.
        """
        self.round += 1
        if self.config.lease_reads:
            self.lease.sent(self.round, self.now, self.config.lease)
        message = asks = Heartbeat(self.me, self.term, self.commit, self.round)
        watched = self.watched if quiet and self.watched else ()
        if watched:
            asks = Heartbeat(self.me, self.term, self.commit, self.round, quiet=True)
        for peer in self.peers:  # an older release does not know what `quiet` is
            self.send(peer, asks if peer in watched else message)

    def changed(self) -> None:
        """Tell the driver that role, term or leader changed."""
        self.out.append(RoleChanged(self.role, self.term, self.leader))

    def leader_is_alive(self) -> bool:
        """Stickiness: was a leader heard (or, as leader, a majority) within the lease?"""
        if self.role is Role.LEADER:
            return self.now - self.quorum_at < self.config.lease
        return self.leader is not None and self.now - self.heard_leader_at < self.config.lease

    def has_promised(self) -> bool:
        """True while a leader relies on this node's promise to give no vote (lease.py)."""
        return self.now < self.promised_until


_FIELDS: dict[Span, list[Field[Any]]] = {
    span: [one for one in fields(State) if span_of(one) is span] for span in Span
}
