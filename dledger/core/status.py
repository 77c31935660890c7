"""Frozen pictures of a node, for people, metrics and the invariant checks.

Named tuples, because the simulator takes one after every event.
"""

from __future__ import annotations

from typing import NamedTuple

from dledger.core.configuration import INITIAL, NO_CONFIGURATION, Configuration
from dledger.core.types import EntryId, Index, NodeId, Role, Term


class PeerStatus(NamedTuple):
    """A leader's view of one follower (progress.py). `heard_at` in the driver's seconds."""

    node_id: NodeId
    mode: str
    next: Index
    matched: Index
    flushed: Index
    in_flight_bytes: int
    heard_at: float


class NodeStatus(NamedTuple):
    """Status of one node and, as leader, of its followers."""

    node_id: NodeId
    role: Role
    term: Term
    voted_for: NodeId | None
    leader: NodeId | None
    last: EntryId
    flushed: Index
    commit: Index
    noop_index: Index
    failure: str
    peers: tuple[PeerStatus, ...]
    configuration: Configuration = NO_CONFIGURATION
    configuration_index: Index = INITIAL
