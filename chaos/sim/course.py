"""Which faults a simulated run has: drawn by its seed, planned by a schedule, all or some of them.

    drawn            the seed draws kind, machine and time as the run goes on
    schedule         drawn beforehand, as for live runs (chaos/schedule.py)
    kept             only faults of these numbers are carried out; of a run whose faults are drawn
                     all that its whole run drew is fixed in `begun`

With nothing left out it is the same run, step for step. With something left out all that comes
later differs a little in its timing; `salt` gives other such runs of the same faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from chaos.schedule import Planned
from chaos.sim.kinds.table import CHANGES_MEMBERS


class Begun(NamedTuple):
    """One fault as a run carried it out.

    Attributes:
        at: virtual time at which it began.
        kind: name in `chaos.sim.kinds.table`.
        machine: number of the machine that was chosen.
        led: that machine believed to lead.
        seconds: how long it was to last, 0 for a blow.
    """

    number: int
    at: float
    kind: str
    machine: int
    led: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Course:
    """See above.

    Attributes:
        schedule: faults that were planned; None: the seed draws them.
        begun: what the whole run began; () when nothing is left out.
        kept: numbers of the faults that are carried out; None: all.
        salt: how many draws are thrown away at the first fault that is left out.
        calm: the network is quick and loses nothing by itself.
    """

    schedule: tuple[Planned, ...] | None = None
    begun: tuple[Begun, ...] = ()
    kept: frozenset[int] | None = None
    salt: int = 0
    calm: bool = False

    def leaves_out(self, number: int) -> bool:
        """True if the fault of this number is not to be injected in this run."""
        return self.kept is not None and number not in self.kept

    def words(self) -> str:
        """Options of `dledger sim` that ask for it; "" for every fault."""
        if self.calm:
            return "--calm"
        if self.kept is None:
            return ""
        kept = ",".join(str(number) for number in sorted(self.kept)) or "none"
        return f"--keep {kept}" + (f" --salt {self.salt}" if self.salt else "")

    def changes_members(self) -> bool:
        """Whether the group of the run must be one that changes."""
        return any(planned.kind in CHANGES_MEMBERS for planned in self.schedule or ())


#: Every fault that the seed draws.
FROM_SEED = Course()
#: None at all.
NOTHING = Course(schedule=(), calm=True)
