"""A failing seed with as little in it as still shows the violation.

    fewer clients ─► a shorter run ─► faults left out (chaos/replay/minimize.py) ─► Case

Each step runs the machine again and keeps the change if the same violation is seen, at any entry. A
fault that is left out shifts the rest a bit, so each set of faults has some runs (`Course.salt`).

    14/clients=1/seconds=3/keep=2,5/salt=1      a case: `--simulated-seeds` runs it again
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace

from chaos.replay.minimize import Numbers, minimize
from chaos.sim.course import FROM_SEED, Begun, Course
from chaos.testing.cluster import Pace, Report, SimulatedRun
from chaos.testing.judge import MachineViolation
from chaos.testing.subject import Subject

#: Runs of one set of faults before it counts as harmless.
SALTS = 2
#: Parts of a run's time that are tried in its place.
SHARES = (0.5, 0.75, 0.9)
#: A search that needs more runs ends with what it has; half a minute or so.
RUNS_MAX = 60


@dataclass(frozen=True, slots=True)
class Case:
    """One seed, or less of it.

    Attributes:
        clients: None: as the caller says.
        seconds: with faults; None: as the caller says.
        kept: numbers of the faults that are carried out, of those of the whole run; None: all.
        salt: how many draws are thrown away at the first fault that is left out.
    """

    seed: int
    clients: int | None = None
    seconds: float | None = None
    kept: Numbers | None = None
    salt: int = 0

    def words(self) -> str:
        """As `case_of` takes it."""
        kept = None if self.kept is None else ",".join(map(str, self.kept)) or "none"
        parts = {
            "clients": self.clients,
            "seconds": None if self.seconds is None else f"{self.seconds:g}",
            "keep": kept,
            "salt": self.salt or None,
        }
        named = (f"{name}={value}" for name, value in parts.items() if value is not None)
        return "/".join((str(self.seed), *named))


def case_of(text: str) -> Case:
    """The case that these words name. Raises ValueError."""
    seed, *parts = text.split("/")
    case = Case(int(seed))
    for part in parts:
        name, _, value = part.partition("=")
        if name == "keep":
            numbers = () if value == "none" else tuple(map(int, value.split(",")))
            case = replace(case, kept=numbers)
        elif name == "seconds":
            case = replace(case, seconds=float(value))
        elif name in ("clients", "salt"):
            case = replace(case, **{name: int(value)})  # type: ignore[arg-type]
        else:
            raise ValueError(name)
    return case


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The least case that was found.

    Attributes:
        violation: its own text; names the same violation as that of the whole seed.
        faults: those of the case, in order.
        whole: how many faults the whole run began.
        runs: how many runs were tried.
    """

    case: Case
    violation: str
    faults: tuple[Begun, ...]
    whole: int
    runs: int

    def text(self, again: str = "--simulated-seeds") -> str:
        """The parts of the run that are left, and how to run it again.

        `again`: the words before those of the case.
        """
        each = [f"  {one.at:6.2f} s  {one.kind} n{one.machine}" for one in self.faults]
        left = len(each)
        return "\n".join(
            (
                f"shrunk in {self.runs} runs to {self.case.clients} clients, "
                f"{self.case.seconds:g} s and {left} of {self.whole} faults:",
                *(each or ["  none"]),
                self.violation,
                f"this case again: {again} {self.case.words()}",
            )
        )


class Shrinking:
    """Runs cases of one seed of one machine."""

    def __init__(
        self, subject: Subject, seed: int, pace: Pace, *, nodes: int, clients: int
    ) -> None:
        self._subject, self._seed, self._pace = subject, seed, pace
        self._nodes, self._clients = nodes, clients
        self._begun: tuple[Begun, ...] | None = None
        self._violation, self._found = "", ""
        self.runs = 0

    def play(self, case: Case) -> Report:
        """Run one case. Raises MachineViolation."""
        return self._made(case).run()

    def shrink(self, runs_max: int = RUNS_MAX) -> Shrunk | None:
        """None when the whole seed shows no violation."""
        whole = Case(self._seed, self._clients, self._pace.seconds)
        run = self._made(whole)
        self.runs = 1
        try:
            run.run()
            return None
        except MachineViolation as violation:
            self._violation, self._found = violation_of(violation), str(violation)
        whole_count = len(run.begun)
        self._left, self._runs_max, self._best = tuple(run.begun), runs_max, whole
        for clients in range(1, self._clients):
            if self._fails(replace(self._best, clients=clients)):
                break
        while self._shorter():
            pass
        self._begun = self._left  # of the run with fewer clients: other faults than the whole one's
        minimize([one.number for one in self._left], self._fails_with)
        while self._shorter():  # a shorter run begins the same faults, up to its end
            pass
        return Shrunk(self._best, self._found, self._left, whole_count, self.runs)

    def _shorter(self) -> bool:
        seconds = self._best.seconds
        assert seconds is not None
        shorter = (math.ceil(seconds * share * 10) / 10 for share in SHARES)
        return any(
            less < seconds and self._fails(replace(self._best, seconds=less)) for less in shorter
        )

    def _fails_with(self, kept: Numbers) -> bool:
        return any(
            self._fails(replace(self._best, kept=tuple(kept), salt=salt)) for salt in range(SALTS)
        )

    def _fails(self, case: Case) -> bool:
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        run = self._made(case)
        try:
            run.run()
        except MachineViolation as violation:
            if violation_of(violation) == self._violation:
                self._best, self._left, self._found = case, tuple(run.begun), str(violation)
                return True
        return False

    def _made(self, case: Case) -> SimulatedRun:
        seconds = self._pace.seconds if case.seconds is None else case.seconds
        clients = self._clients if case.clients is None else case.clients
        return SimulatedRun(
            self._subject,
            case.seed,
            replace(self._pace, seconds=seconds),
            nodes=self._nodes,
            clients=clients,
            course=self._course(case),
        )

    def _course(self, case: Case) -> Course:
        """With its faults at the times of the whole run, where some are left out."""
        if case.kept is None:
            return FROM_SEED
        if self._begun is None:
            run = self._made(Case(case.seed, case.clients, case.seconds))
            with contextlib.suppress(MachineViolation):
                run.run()
            self._begun = tuple(run.begun)
        return Course(begun=self._begun, kept=frozenset(case.kept), salt=case.salt)


def violation_of(violation: MachineViolation) -> str:
    """Name of the violation, as its text has it behind the seed."""
    return str(violation).split(": ", 2)[1]
