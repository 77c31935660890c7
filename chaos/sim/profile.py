"""Optional features of simulated clusters; each flag changes how a seed is run."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Profile:
    """The flags of `dledger sim`.

    Attributes:
        membership: members are added, removed and lose their disks.
        snapshots: beginnings of logs are deleted, and states are sent.
        repair: nodes scrub and repair their logs; nobody restores what rots there.
        sick_disks: nodes look at their disks and give up the lead when one is slow, full or hangs.
        lost_files: both copies of a small file of a voter are lost, of one voter at a time; the
            group's members change as with `membership`, and logs are shortened as with `snapshots`.
        quiescence: hosts watch each other, and groups without traffic fall silent.
        lease_reads: reads are served by leases, and clocks drift as far as they may, or run back.
    """

    membership: bool = False
    snapshots: bool = False
    sick_disks: bool = False
    repair: bool = False
    lease_reads: bool = False
    lost_files: bool = False
    quiescence: bool = False

    @property
    def trims(self) -> bool:
        """Are beginnings of logs deleted? A file that says where a log begins is there to lose."""
        return self.snapshots or self.lost_files

    def words(self) -> list[str]:
        """As options of `dledger sim`; [] for none."""
        if self == EVERYTHING:
            return ["--everything"]
        return [
            f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name)
        ]


#: No flag: what bars and mutants count.
USUAL = Profile()
#: All of it at once: what a group of real nodes has. Leases are off there.
EVERYTHING = Profile(membership=True, snapshots=True, sick_disks=True, repair=True)
