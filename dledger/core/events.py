"""All that can happen to a node: `RaftNode.handle(event, now)` is the only way it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dledger.core.configuration import Change, Configuration
from dledger.core.messages import Message
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, Reason
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

    `payload` is opaque: it comes back in `AppendLocal`, or in `ProposalRejected`. `when_written`:
    `WrittenAdvanced` is wanted, too, before the commit. `frees_space`: it leads to free space on
    full disks, so it is taken where others are refused for want of space (L5).
    """

    count: int
    size: int
    payload: Any
    when_written: bool = False
    frees_space: bool = False


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
class PrefixDropped:
    """The log's entries up to `anchor` are deleted here; all of them are committed."""

    anchor: EntryId


@value
class SnapshotReceived:
    """`offset` bytes of the snapshot at `anchor` are on disk; `whole`: all of it, and checked."""

    anchor: EntryId
    configuration: Configuration
    offset: int
    whole: bool


@value
class HardStatePersisted:
    """`PersistHardState` number `sequence` is on disk, in both slots (D1, R7)."""

    sequence: int


@value
class HostsWatched:
    """The hosts of `peers` are heard, and hear this one; that they go silent is told by this event.

    Told when that changes, where many groups share a process (quiet.py); never elsewhere.
    `spread`: seconds over which this host's groups begin elections, when one has gone silent.
    """

    peers: frozenset[NodeId]
    spread: float = 0.0


@value
class StorageFailed:
    """A write, sync or check failed: stop voting, acknowledging and leading at once (D5)."""

    reason: Reason
    detail: str


@value
class DiskChecked:
    """How this node's disk does; told now and then, and at once when `health` changes (L5).

    `detail`: why it is not GOOD, for people. `sync_seconds`: what a sync of the log takes, 0: as
    far as seen none was made. `may_not_lead`: not even the entry that opens a leadership would find
    space.
    """

    health: DiskHealth
    detail: str = ""
    sync_seconds: float = 0.0
    may_not_lead: bool = False


@value
class DamageNoted:
    """Entries from `first` on are damaged on this disk; -1: all are whole again (R2)."""

    first: Index


@value
class StateNeeded:
    """A state of the log up to the entry `first` or a later one is needed; -1: none is any more.

    The entry is damaged here and given up, and `holder` has deleted it, so it has the state that it
    led to. Or it is our log's anchor, whose state is lost, and `holder` is None.
    """

    first: Index
    holder: NodeId | None = None


@value
class TransferRequested:
    """Hand leadership to `to`, or to the best follower when None. Answered by `TransferDone`."""

    to: NodeId | None
    transfer_id: int


@value
class MembershipRequested:
    """Change the group by one step, if this node leads. Answered by `MembershipDone`.

    `incarnations`: the incarnation of each peer that this node has met; None where incarnations
    are not told apart.
    """

    change: Change
    change_id: int
    incarnations: Mapping[NodeId, int] | None = None


@value
class ReadRequested:
    """A caller wants a linearizable read. Answered by `ReadReady` or `ReadRefused`."""

    read_id: int


@value
class CommitWanted:
    """A follower waits for the commit: tell `to`, if this node leads.

    Who proposed through that follower reads the result of its apply there. Else it would learn with
    the next range or heartbeat that its entries are committed, which may be a tenth of a second.
    """

    to: NodeId


@value
class PeerDisconnected:
    """A connection to or from `peer` broke: messages in flight on it may be lost."""

    peer: NodeId
    bulk: bool = True
    control: bool = True


@value
class PeerConnected:
    """The connection to `peer` for heartbeats and votes is open, for the first time or again."""

    peer: NodeId


@value
class ElectionHeld:
    """An election that is due waits for those of other groups (`held`), or need not any more.

    Told where many groups share a process, beside each of which an election would be too slow
    (candidacies.py). What a node that waits hears of a leader, or votes for, ends its election.
    """

    held: bool


Event = (
    TimerFired
    | MessageReceived
    | ProposalReceived
    | AppendSent
    | EntriesFlushed
    | PrefixDropped
    | SnapshotReceived
    | HardStatePersisted
    | StorageFailed
    | DiskChecked
    | DamageNoted
    | StateNeeded
    | TransferRequested
    | MembershipRequested
    | ReadRequested
    | CommitWanted
    | PeerDisconnected
    | PeerConnected
    | HostsWatched
    | ElectionHeld
)

#: The shell has looked at a disk, at other hosts, its connections, or the elections of a host.
Found = DiskChecked | HostsWatched | PeerConnected | ElectionHeld
