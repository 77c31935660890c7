"""All that the core may ask for. A driver executes a returned list from first to last.

Order is a field, not a comment: `Send` and `SendAppend` carry `after`, the number of the
`PersistHardState` that must be on disk before the message may leave (0 = none). The driver keeps
such messages back; it never blocks on them. Log effects (`TruncateAfter`, `AppendLocal`,
`AppendReceived`) are executed at once, in order, by a write into the page cache; that they are on
disk is told later by `EntriesFlushed`.
"""

from __future__ import annotations

from typing import Any

from dledger.core.configuration import Configuration
from dledger.core.messages import (
    AppendEntries,
    Message,
    RangeReply,
    RangeRequest,
    SnapshotChunk,
)
from dledger.core.types import EntryId, HardState, Index, NodeId, Reason, Role, Term
from dledger.core.value import value


@value
class PersistHardState:
    """Write both slots, each followed by its own sync; then tell `HardStatePersisted(sequence)`."""

    sequence: int
    state: HardState


@value
class TruncateAfter:
    """Drop every entry above `index`, physically and durably (D6, R11). Never below commit (S3)."""

    index: Index


@value
class AppendLocal:
    """Leader: give the payload's entries the indexes `first`..`last` in `term`, and write them."""

    first: Index
    last: Index
    term: Term
    payload: Any


@value
class AppendNoop:
    """Leader: write the entry that opens a leadership, at `index` in `term` (decision c)."""

    index: Index
    term: Term


@value
class AppendConfiguration:
    """Leader: write `configuration` as the entry `index` of `term`; a crash keeps it findable."""

    index: Index
    term: Term
    configuration: Configuration


@value
class AppendReceived:
    """Follower: write the entries of `message` from `first` on; earlier ones are here already."""

    message: AppendEntries
    first: Index


@value
class Send:
    """Give `message` to the transport for `to`, once hard state number `after` is on disk."""

    to: NodeId
    message: Message
    after: int


@value
class SendAppend:
    """Send a range that begins at `prev.index + 1`, then tell `AppendSent(to, last, size)`.

    The driver picks `last` ≤ `last_max` so that the range has at most `size_max` bytes (but at
    least one entry when there is one). `probe`: send no entries, only ask whether `prev` is there.
    """

    to: NodeId
    term: Term
    prev: EntryId
    last_max: Index
    size_max: int
    commit: Index
    probe: bool
    after: int
    when_written: bool = False


@value
class SendSnapshot:
    """Send at most `size_max` bytes of the state at the log's beginning, from `offset` on."""

    to: NodeId
    term: Term
    anchor: EntryId
    configuration: Configuration
    offset: int
    size_max: int
    after: int


@value
class ReceiveSnapshot:
    """Keep the bytes of `message` on disk, then tell `SnapshotReceived`."""

    message: SnapshotChunk


@value
class InstallSnapshot:
    """The log restarts empty behind `anchor`, the state machine with the received state; durable.

    A crash leaves the whole old log or this.
    """

    anchor: EntryId
    configuration: Configuration


@value
class TakeState:
    """The whole snapshot at `anchor`, an entry of this log, is here: the log begins behind it now.

    What is behind the anchor stays; what could not be applied before it is in the state.
    """

    anchor: EntryId


@value
class RepairMessageReceived:
    """A member asks for entries that it lost, or sends some; no rule of Raft is touched."""

    message: RangeRequest | RangeReply


@value
class CommitAdvanced:
    """Everything up to `index` is decided for ever; apply it, in order."""

    index: Index


@value
class WrittenAdvanced:
    """Leader: a majority has written all entries up to `index`; this commits none of them (R22).

    It comes only where a proposal asked for it, and may not come at all before the commit.
    """

    index: Index


@value
class RoleChanged:
    """The role, the term or the known leader is another one now.

    When a leadership ends, what becomes of proposals that are not applied yet is open (S8).
    """

    role: Role
    term: Term
    leader: NodeId | None


@value
class ConfigurationChanged:
    """The group is another one now, by the entry at `index` (-1: as the node was set up).

    It takes effect before it is committed: connections to new members open, and a truncation may
    bring the one before back.
    """

    configuration: Configuration
    index: Index


@value
class MembershipDone:
    """`ok`: the change is committed. TERM_CHANGED: how it ends is not known here (S8)."""

    change_id: int
    ok: bool
    reason: Reason | None


@value
class ProposalRejected:
    """Certain: no part of `payload` was or will be written."""

    payload: Any
    reason: Reason
    leader: NodeId | None


@value
class ReadReady:
    """A read may be served once everything up to `index` is applied."""

    read_id: int
    index: Index


@value
class ReadRefused:
    """A read is not served here. `leader`: the node to ask, None if this node knows of none."""

    read_id: int
    reason: Reason
    leader: NodeId | None


@value
class TransferDone:
    """`ok`: another node leads now, or stands with our blessing."""

    transfer_id: int
    ok: bool
    reason: Reason | None


Effect = (
    PersistHardState
    | TruncateAfter
    | AppendLocal
    | AppendNoop
    | AppendConfiguration
    | AppendReceived
    | Send
    | SendAppend
    | SendSnapshot
    | ReceiveSnapshot
    | InstallSnapshot
    | TakeState
    | RepairMessageReceived
    | CommitAdvanced
    | WrittenAdvanced
    | RoleChanged
    | ConfigurationChanged
    | MembershipDone
    | ProposalRejected
    | ReadReady
    | ReadRefused
    | TransferDone
)
