"""The parts of a driver: an opened folder, and the state machine of its log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from commitlog.files.system import Buffer
from dledger.core.configuration import Configuration
from dledger.core.types import NO_INDEX, Index, Term
from dledger.durable.configurations import ConfigurationFile
from dledger.log.file_log import FileLog
from dledger.log.port import HardStateStore
from dledger.membership.generations import Generations
from dledger.membership.handshake import Member
from dledger.membership.roster import Roster
from dledger.replica.ports import StateMachine
from dledger.runtime.alarms import Alarms
from dledger.runtime.candidacies import Candidacies
from dledger.runtime.group_clock import GroupClock
from dledger.runtime.host_parts import HostParts
from dledger.snapshots.prefix import Prefix, Restore
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.wire.forwards import Forwarded


def _nothing() -> None:
    """No caller counts on the next index."""


async def _all_ended() -> bool:
    """No work beside the log's own uses the folder."""
    return True


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a driver: the opened storage, and the state machine of the log.

    `roster`: who may speak to us, in which life; `generations`: which copy of the folder this is.
    `initial`: the group before any entry says otherwise; `group`: the entries that do.
    `close(failed)`: release the storage, without another write when it has failed. `noop_body`,
    `members_body`: other internal entries than ours; they are stamped with their physical offset
    at byte 28. `restore`: how the state machine is given the state in `snapshots` that a leader
    sent; without it the log keeps its beginning for ever. `restores_files`: by a `StateFile`, in a
    thread, as `Prefix` has it; `Driver.restored` is called when it has. `forwarded`:
    takes the commands that peers forward, and their answers. `settle_turn` is called before the
    replica may append an entry of its own accord (a change of the group): a caller that has counted
    on the next index proposes now. `ended()`: waits for work of the state machine in the folder;
    False: it goes on. `host`: what this group shares with others of its process.
    """

    log: FileLog
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
    restores_files: bool = False
    forwarded: Forwarded | None = None
    settle_turn: Callable[[], None] = _nothing
    ended: Callable[[], Awaitable[bool]] = _all_ended
    host: HostParts | None = None

    def prefix(self) -> Prefix | None:
        """Deletes the log's beginning behind a state; None: it stays for ever."""
        if self.restore is None:
            return None
        return Prefix(self.log, self.snapshots, self.restore, by_file=self.restores_files)

    def may_rest(self, *, is_quiet: bool) -> bool:
        """May parts that look at this group stop doing so? Then it keeps no entries in memory.

        Up to 8 MiB of them, for followers and readers that a quiet group has not.
        """
        rests = is_quiet and self.host is not None
        if rests:
            self.log.reader.clear()
        return rests

    @property
    def alarms(self) -> Alarms | None:
        """The host's alarms, which keep far deadlines of a quiet group; None without a host."""
        return None if self.host is None else self.host.alarms

    @property
    def candidacies(self) -> Candidacies | None:
        """Places of the host's groups that stand for election; None without a host."""
        return None if self.host is None else self.host.candidacies

    @property
    def clocks(self) -> GroupClock | None:
        """Clocks of other hosts, as this host has measured them; None without a host."""
        return None if self.host is None else self.host.links.clocks
