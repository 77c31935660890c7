"""What a driver is given: an opened folder, and what its log is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from commitlog.files import Buffer
from dledger.core.configuration import Configuration
from dledger.core.types import NO_INDEX, Index, Term
from dledger.handshake import Member
from dledger.prefix import Restore
from dledger.replica import StateMachine
from dledger.runtime.generations import Generations
from dledger.runtime.roster import Roster
from dledger.storage.configurations import ConfigurationFile
from dledger.storage.port import HardStateStore
from dledger.storage.snapshots import SnapshotFolder
from dledger.storage.trimmable_log import TrimmableLog


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver is given: the opened storage, and what the log is for.

    `roster`: who may speak to us, in which life; `generations`: which copy of the folder this is.
    `initial`: the group before any entry says otherwise; `group`: the entries that do.
    `close(failed)`: release the storage, without another write when it has failed. `noop_body`,
    `members_body`: other internal entries than ours; they are stamped with their physical offset
    at byte 28. `restore`: how the state machine is given the state in `snapshots` that a leader
    sent; without it the log keeps its beginning for ever.
    """

    log: TrimmableLog
    hard: HardStateStore
    member: Member
    machine: StateMachine
    roster: Roster
    generations: Generations
    initial: Configuration
    group: ConfigurationFile
    close: Callable[[bool], None]
    snapshots: SnapshotFolder
    noop_body: Callable[[Term], Buffer] | None = None
    members_body: Callable[[Configuration], Buffer] | None = None
    applied: Index = NO_INDEX
    restore: Restore | None = None
