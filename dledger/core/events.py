"""All that can happen to a node: `RaftNode.handle(event, now)` is the only way it changes."""

from __future__ import annotations

from typing import Any

from dledger.core.messages import Message
from dledger.core.types import Index, NodeId, Reason
from dledger.core.value import value


@value
class TimerFired:
    """The moment that `deadline()` named has come (early or late calls do no harm)."""


@value
class MessageReceived:
    """A peer's message, decoded and checked for form; its truth is the core's to judge."""

    message: Message


@value
class ProposalReceived:
    """Entries to append, if this node leads: `count` of them, `size` bytes with headers.

    `payload` is opaque: it comes back in `AppendLocal`, or in `ProposalRejected`.
    """

    count: int
    size: int
    payload: Any


@value
class AppendSent:
    """The driver has sent the range that a `SendAppend` effect asked for, up to `last`."""

    to: NodeId
    last: Index
    size: int


@value
class EntriesFlushed:
    """Everything up to `index` is on this node's disk (a finished fdatasync)."""

    index: Index


@value
class HardStatePersisted:
    """`PersistHardState` number `sequence` is on disk, in both slots (D1, R7)."""

    sequence: int


@value
class StorageFailed:
    """A write, sync or check failed: stop voting, acknowledging and leading at once (D5)."""

    reason: Reason
    detail: str


@value
class TransferRequested:
    """Hand leadership to `to`, or to the best follower when None. Answered by `TransferDone`."""

    to: NodeId | None
    transfer_id: int


@value
class ReadRequested:
    """Someone wants a linearizable read. Answered by `ReadReady` or `ReadRefused`."""

    read_id: int


@value
class PeerDisconnected:
    """A connection to or from `peer` went away: what was in flight on it may be lost."""

    peer: NodeId
    bulk: bool = True
    control: bool = True


Event = (
    TimerFired
    | MessageReceived
    | ProposalReceived
    | AppendSent
    | EntriesFlushed
    | HardStatePersisted
    | StorageFailed
    | TransferRequested
    | ReadRequested
    | PeerDisconnected
)
