"""The ports between a replica and its surroundings.

Proposal       bodies that want to be entries, and how it ended
StateMachine   what the log is for
Ports          what the shell does: send, run disk work, know the group
Configurations how the log holds the group (R20)
SyncWork       one piece of disk work in flight
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from commitlog.files.system import Buffer
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.messages import Message
from dledger.core.types import NO_INDEX, Index, NodeId, Role, Term
from dledger.errors import DledgerError
from dledger.log.port import SyncTask


@dataclass(slots=True)
class Proposal:
    """Bodies that want to be entries, as one unit: all of them, next to each other, or none.

    `done(proposal, error)` is called once: with None when all are committed and applied, with a
    `NotDone` or `OutcomeUnknown` else. `written(proposal)`, when given, is called before that, as a
    rule: a majority has written them, not flushed (R22; durability.py says what that risks). The
    fields between are filled when the entries are written. `frees_space`: what they lead to makes
    space on full disks, so they may use the space that is kept for such entries (L5).
    """

    bodies: Sequence[Buffer]
    done: Callable[[Proposal, DledgerError | None], None]
    stamp_at: int = -1
    written: Callable[[Proposal], None] | None = None
    first: Index = field(default=NO_INDEX)
    last: Index = field(default=NO_INDEX)
    term: Term = field(default=Term(-1))
    positions: Sequence[int] = ()
    frees_space: bool = False


class StateMachine(Protocol):
    """The state machine of the log. Called on the replica's thread; must not block."""

    def apply(self, first: Index, last: Index) -> Index | None:
        """Entries `first`..`last` are committed; called in order, each index once per process.

        Returns the last one that was applied when the others would take too long, `first - 1` for
        none: they come again when the shell calls `Replica.go_on`. None: all were.
        """
        ...

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Called after each change of role, term or known leader."""


class Configurations(Protocol):
    """Configurations as entries of the log."""

    @property
    def entries(self) -> Sequence[ConfigurationEntry]:
        """The configuration entries in the log when it was opened, oldest first."""
        ...

    def note(self, entry: ConfigurationEntry, term: Term) -> None:
        """This entry is about to be written, in `term`; durable when this returns."""
        ...

    def encode(self, configuration: Configuration) -> Buffer:
        """The body of its entry; stamped like a no-op's."""
        ...

    def decode(self, body: Buffer) -> Configuration | None:
        """The configuration in an entry; None for other ones. Raises ValueError if unreadable."""
        ...


class NoConfigurations:
    """A group that never changes: without configuration entries."""

    entries: Sequence[ConfigurationEntry] = ()

    def note(self, entry: ConfigurationEntry, term: Term) -> None:
        """Raises AssertionError: a group of fixed members has no such entries."""
        raise AssertionError("this group does not change")

    def encode(self, configuration: Configuration) -> Buffer:
        """Raises AssertionError: a group of fixed members has no such entries."""
        raise AssertionError("this group does not change")

    def decode(self, body: Buffer) -> Configuration | None:
        """Always None: no entry is a configuration."""
        return None


class Ports(Protocol):
    """The shell's services for a replica: sending, disk work, news of the group."""

    def send(self, to: NodeId, message: Message) -> None:
        """Queue for the peer, on the link of its kind; may drop, never blocks."""
        ...

    def configuration_changed(self, configuration: Configuration, index: Index) -> None:
        """The group, by entry `index` of the log, committed or not; may be taken back."""
        ...

    def start_sync(self, work: SyncWork) -> None:
        """Run `work.task.run()` elsewhere, later call `Replica.sync_done(work, error, now)`."""
        ...


@dataclass(slots=True)
class SyncWork:
    """Disk work in flight. `kind`: "log", "mark", "hard", or a kind that may take seconds:
    "prepare", "trim", "snapshot", "mend"; "generations" is the shell's own.

    "hard" runs on a thread that "log" does not share (L2). `withdrawn`: set on the loop; it is not
    done any more, unless a thread has begun it.
    """

    kind: str
    task: SyncTask
    sequence: int = 0
    withdrawn: bool = False
