"""The unmutated control: the same seeds and the same tests with every rule in its place.

    python -m chaos.mutants.control     a `Wanted` as JSON on standard input, a `Control` out

What turns red here would be credited to mutants as kills (docs/spec/chaos.md 5.1 (c): it happened).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.mutants.child import plan_of, run_tests
from chaos.mutants.mutant import Mutant
from chaos.mutants.run import Fate, run_child
from chaos.mutants.table import find
from chaos.tools.pool import end_with_parent, map_unordered

#: A control that runs this long is broken; seconds.
SECONDS_MAX = 900.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The runs of the control. `seeds`: (mutant with the plan, seed)."""

    seeds: tuple[tuple[str, int], ...] = ()
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """How many seeds and tests ran, and which were red without any rule taken out."""

    seeds: int
    tests: int
    red: tuple[str, ...]
    seconds: float

    @property
    def clean(self) -> bool:
        """True if no seed and no test failed without a mutation."""
        return not self.red


def wanted_by(mutants: Sequence[Mutant], fates: Sequence[Fate]) -> Wanted:
    """Returns the runs that came up to each mutant's kill, each seed of a kind of run once."""
    by_name = {fate.name: fate for fate in fates}
    seeds: dict[tuple[object, ...], tuple[str, int]] = {}
    for mutant in mutants:
        fate = by_name.get(mutant.name)
        if fate is None or fate.seed < 0:
            continue
        for seed in range(mutant.first, fate.seed + 1):
            kind = mutant.nodes, mutant.profile, mutant.subject
            seeds.setdefault((seed, *kind), (mutant.name, seed))
    tests = dict.fromkeys(test for fate in fates for test in fate.tests)
    return Wanted(tuple(seeds.values()), tuple(tests))


def run_control(wanted: Wanted, jobs: int) -> Control:
    """Seeds and tests in processes of their own. Raises RuntimeError when one breaks."""
    began = time.monotonic()
    seeds, tests = wanted.seeds, wanted.tests
    # Every jobs-th of each: neighbours in the table take equally long.
    parts = [Wanted(seeds[number::jobs], tests[number::jobs]) for number in range(jobs)]
    red = [name for _, found in map_unordered(_run_part, parts, jobs) for name in found]
    return Control(len(seeds), len(tests), tuple(red), round(time.monotonic() - began, 2))


def _run_part(part: Wanted) -> list[str]:
    command = [sys.executable, "-m", "chaos.mutants.control"]
    done = run_child(command, timeout=SECONDS_MAX, text=json.dumps(asdict(part)))
    if done.returncode:
        raise RuntimeError(f"the control broke:\n{done.stderr[-2000:]}")
    red: list[str] = json.loads(done.stdout.splitlines()[-1])
    return red


def _main() -> None:
    end_with_parent()
    wanted = json.load(sys.stdin)
    red: list[str] = []
    for name, seed in wanted["seeds"]:
        plan = plan_of(find(name))
        if plan.run(seed).violation:
            red.append(plan.again(seed))
    tests = tuple(wanted["tests"])
    failed = {_short(name) for name in run_tests(tests)} if tests else set()
    # Timing on a busy machine may fail a test once; what is really red is red again, alone.
    again = tuple(test for test in tests if _short(test) in failed)
    red += run_tests(again) if again else []
    print(json.dumps(red))


def _short(test: str) -> str:
    """File and name of a test: pytest tells its folder as it likes."""
    path, _, name = test.partition("::")
    return f"{Path(path).name}::{name}"


if __name__ == "__main__":
    _main()
    sys.stdout.flush()
    os._exit(0)
