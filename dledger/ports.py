"""What a replica and its surroundings ask of each other.

Proposal       bodies that want to be entries, and how it ended
StateMachine   what the log is for
Ports          what the shell does: send, and run disk work
SyncWork       one piece of disk work in flight
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from commitlog.files import Buffer
from dledger.core.messages import Message
from dledger.core.types import NO_INDEX, Index, NodeId, Role, Term
from dledger.errors import DledgerError
from dledger.storage.port import SyncTask


@dataclass(slots=True)
class Proposal:
    """Bodies that want to be entries, as one unit: all of them, next to each other, or none.

    `done(proposal, error)` is called once: with None when all are committed and applied, with a
    `NotDone` or `OutcomeUnknown` else. The fields below it are filled when the entries are written.
    """

    bodies: Sequence[Buffer]
    done: Callable[[Proposal, DledgerError | None], None]
    stamp_at: int = -1
    first: Index = field(default=NO_INDEX)
    last: Index = field(default=NO_INDEX)
    term: Term = field(default=Term(-1))
    positions: Sequence[int] = ()


class StateMachine(Protocol):
    """What the log is for. Called on the replica's thread; must not block."""

    def apply(self, first: Index, last: Index) -> None:
        """Entries `first`..`last` are committed; called in order, each index once per process."""
        ...

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None: ...


class Ports(Protocol):
    """What the shell does for a replica."""

    def send(self, to: NodeId, message: Message) -> None:
        """Queue for the peer, on the lane of its kind; may drop, never blocks."""
        ...

    def start_sync(self, work: SyncWork) -> None:
        """Run `work.task.run()` elsewhere, later call `Replica.sync_done(work, error, now)`."""
        ...


@dataclass(slots=True)
class SyncWork:
    """Disk work in flight. `kind`: "log", "mark", "hard" or "prepare".

    "hard" runs on a lane that "log" does not share (L2); "prepare" may take seconds, alone.
    """

    kind: str
    task: SyncTask
    sequence: int = 0
