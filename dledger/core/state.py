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
from dataclasses import dataclass, field

from dledger.core.config import CoreConfig
from dledger.core.effects import Effect, PersistHardState, RoleChanged, Send
from dledger.core.log_view import LogView
from dledger.core.messages import Heartbeat, Message
from dledger.core.progress import Progress
from dledger.core.types import NO_INDEX, HardState, Index, NodeId, Role, Term


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
class State:
    """One node's state; see the module's text for the relations."""

    config: CoreConfig
    jitter: Callable[[], float]
    term: Term
    voted_for: NodeId | None
    incarnation: int
    log: LogView
    flushed: Index
    commit: Index
    role: Role = Role.FOLLOWER
    leader: NodeId | None = None
    failure: str = ""

    hard_sequence: int = 0
    hard_persisted: int = 0

    election_deadline: float = 0.0
    heard_leader_at: float = float("-inf")
    votes: dict[NodeId, bool] = field(default_factory=dict)
    candidacy_sequence: int = 0
    appointed: bool = False

    matched: Index = NO_INDEX

    heartbeat_deadline: float = 0.0
    quorum_at: float = 0.0
    progress: dict[NodeId, Progress] = field(default_factory=dict)
    noop_index: Index = NO_INDEX
    uncommitted: deque[tuple[Index, int]] = field(default_factory=deque)
    uncommitted_bytes: int = 0
    transfer: Transfer | None = None

    round: int = 0
    round_confirmed: int = 0
    reads: list[PendingRead] = field(default_factory=list)
    asked_reads: dict[int, float] = field(default_factory=dict)

    now: float = 0.0
    out: list[Effect] = field(default_factory=list)

    @property
    def me(self) -> NodeId:
        return self.config.node_id

    def send(self, to: NodeId, message: Message) -> None:
        """Queue a message; it may leave once the newest hard state is on disk (D1)."""
        self.out.append(Send(to, message, self.hard_sequence))

    def persist(self) -> None:
        """Term or vote changed: from here on nothing leaves before this is on disk."""
        self.hard_sequence += 1
        state = HardState(self.term, self.voted_for, self.incarnation)
        self.out.append(PersistHardState(self.hard_sequence, state))

    def reset_election_deadline(self) -> None:
        low, high = self.config.election_timeout_min, self.config.election_timeout_max
        self.election_deadline = self.now + low + (high - low) * self.jitter()

    def broadcast(self) -> None:
        """One heartbeat to everybody; its round proves leadership from here on."""
        self.round += 1
        self.heartbeat_deadline = self.now + self.config.heartbeat_interval
        message = Heartbeat(self.me, self.term, self.commit, self.round)
        for peer in self.config.peers:
            self.send(peer, message)

    def changed(self) -> None:
        """Tell the driver that role, term or leader are not what they were."""
        self.out.append(RoleChanged(self.role, self.term, self.leader))

    def leader_is_alive(self) -> bool:
        """Stickiness: was a leader heard (or, as leader, a majority) within the lease?"""
        if self.role is Role.LEADER:
            return self.now - self.quorum_at < self.config.lease
        return self.leader is not None and self.now - self.heard_leader_at < self.config.lease
