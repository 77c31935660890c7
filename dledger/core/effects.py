"""All that the core may ask for. A driver executes a returned list from first to last.

Order is a field, not a comment: `Send` and `SendAppend` carry `after`, the number of the
`PersistHardState` that must be on disk before the message may leave (0 = none). The driver keeps
such messages back; it never blocks on them. Log effects (`TruncateAfter`, `AppendLocal`,
`AppendReceived`) are executed at once, in order, by a write into the page cache; that they are on
disk is told later by `EntriesFlushed`.
"""

from __future__ import annotations

from typing import Any

from dledger.core.messages import AppendEntries, Message
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


@value
class CommitAdvanced:
    """Everything up to `index` is decided for ever; apply it, in order."""

    index: Index


@value
class RoleChanged:
    """The role, the term or the known leader is another one now.

    When a leadership ends, every proposal that is not applied yet has an unknown outcome (S8).
    """

    role: Role
    term: Term
    leader: NodeId | None


@value
class ProposalRejected:
    """Certain: nothing of `payload` was or will be written."""

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
    | AppendReceived
    | Send
    | SendAppend
    | CommitAdvanced
    | RoleChanged
    | ProposalRejected
    | ReadReady
    | ReadRefused
    | TransferDone
)
