"""A failing simulated run with as few faults as still show the violation.

First the run is cut off behind the violation, then faults are left out (`minimize`). What is left
out shifts everything behind it a little, and a race may then be missed by chance alone, so each set
of faults is tried in a few runs that differ in nothing else (`Course.salt`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from chaos.replay.minimize import Numbers, minimize
from chaos.sim.runner import Plan
from chaos.sim.world import RunResult

#: Runs of one set of faults before it counts as harmless.
SALTS = 3
#: A search that needs more runs ends with what it has; about half a minute of one core.
RUNS_MAX = 120


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller run of `plan.first` that shows the violation of the whole one.

    Attributes:
        whole: faults of the run that was given, up to its violation.
        runs: how many runs were tried.
    """

    plan: Plan
    result: RunResult
    whole: int
    runs: int

    @property
    def left(self) -> int:
        """How many faults the smaller run has."""
        return len(self.result.begun)


def shrink(plan: Plan, seed: int) -> Shrunk | None:
    """None when the run of `seed` shows no violation."""
    plan = plan.recorded(seed)
    whole = plan.run(seed)
    if not whole.violation:
        return None
    search = _Search(replace(plan, first=seed, behind=seed + 1), whole)
    minimize([one.number for one in whole.begun], search.fails)
    return Shrunk(search.plan, search.result, len(whole.begun), search.runs)


class _Search:
    """Tries sets of faults; the smallest that failed is `plan` and `result`."""

    def __init__(self, plan: Plan, whole: RunResult) -> None:
        course = replace(plan.course, begun=plan.course.begun or whole.begun)
        self._violation = whole.violation
        self.plan, self.result = plan, whole
        if whole.seconds < plan.seconds:
            self.plan = replace(plan, seconds=math.ceil(whole.seconds))
        self._plan = replace(self.plan, course=course)
        self.runs = 1

    def fails(self, kept: Numbers) -> bool:
        """Whether one of the runs with these faults shows the same violation."""
        for salt in range(SALTS):
            if self.runs >= RUNS_MAX:
                return False
            self.runs += 1
            course = replace(self._plan.course, kept=frozenset(kept), salt=salt)
            result = replace(self._plan, course=course).run(self._plan.first)
            if result.violation == self._violation:
                self.plan, self.result = replace(self.plan, course=course), result
                return True
        return False
