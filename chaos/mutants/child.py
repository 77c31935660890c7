"""One mutant in this process: patch, then run its tests and its seeds until each turns red.

    python -m chaos.mutants.child NAME

Prints one JSON object, a `Judgement`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import install
from chaos.mutants.spec_rows import tests_by_arena
from chaos.mutants.table import find
from chaos.tools.pool import end_with_parent

if TYPE_CHECKING:
    import pytest

    from chaos.sim.runner import Plan
    from chaos.testing.objects import ObjectPlan

#: Simulated seconds of every seed.
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The tests and seeds that noticed the missing rule.

    Attributes:
        tests: of each arena's directed tests (spec_rows.py) the first that failed.
        missed: the letters of arenas whose tests or seeds all passed.
        seed: the first seed that showed a violation; -1 for none.
        again: the line that runs that seed again; "" without one.
        detail: what the seed showed.
        seconds: of this process, imports left out.
    """

    tests: tuple[str, ...]
    missed: str
    seed: int
    again: str
    detail: str
    seconds: float


def main(arguments: list[str]) -> int:
    """Judges the mutant of this name, prints the `Judgement`, returns 0. Raises SystemExit."""
    end_with_parent()
    mutant = find(arguments[0])
    began = time.monotonic()
    install(mutant.patches)
    by_arena = {arena: _failing_test(tests) for arena, tests in tests_by_arena(mutant).items()}
    seed, again, detail = _failing_seed(mutant)
    check_patched(mutant)
    missed = [arena for arena, test in by_arena.items() if not test]
    missed += ["D"] if mutant.seeds and seed < 0 else []
    failed = tuple(test for test in by_arena.values() if test)
    seconds = round(time.monotonic() - began, 2)
    print(json.dumps(asdict(Judgement(failed, "".join(missed), seed, again, detail, seconds))))
    return 0


def check_patched(mutant: Mutant) -> None:
    """Raises SystemExit if no killer imported the patched modules, because their result would not
    depend on the rule then.
    """
    modules = [patch.module for patch in mutant.patches]
    if not any(module in sys.modules for module in modules):
        raise SystemExit(f"no killer of {mutant.name} imports {', '.join(modules)}")


def plan_of(mutant: Mutant) -> Plan | ObjectPlan:
    """The mutant's seeds; imports the simulator, so patches must be installed by then."""
    behind = mutant.first + mutant.seeds
    if mutant.subject:
        from chaos.testing.objects import ObjectPlan

        return ObjectPlan(mutant.subject, mutant.first, behind)
    from chaos.sim.runner import Plan

    return Plan(mutant.first, behind, mutant.nodes, SECONDS, mutant.profile)


def _failing_seed(mutant: Mutant) -> tuple[int, str, str]:
    """Returns (seed, line that repeats it, its violation), or (-1, "", "")."""
    if not mutant.seeds:
        return -1, "", ""
    plan = plan_of(mutant)
    for seed in range(plan.first, plan.behind):
        result = plan.run(seed)
        if result.violation:
            return seed, plan.again(seed), f"{result.violation}: {result.detail}"
    return -1, "", ""


class Failures:
    """A pytest plug-in that remembers which tests failed, in order, and how many ran.

    `broken`: why a failure says nothing about a rule: the set-up failed, the test hung, or the code
    that replaces the rule does not run.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.ran = 0
        self.broken = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts tests that ran; keeps the ids of failed ones, or the first reason for `broken`."""
        self.ran += report.when == "call" and not report.skipped
        if not report.failed:
            return
        if why := _says_nothing(report):
            self.broken = self.broken or f"{report.nodeid}: {why}"
        elif report.nodeid not in self.names:
            self.names.append(report.nodeid)


def _says_nothing(report: pytest.TestReport) -> str:
    said = report.longreprtext
    if report.when == "setup":
        return f"its set-up failed: {said.strip().splitlines()[-1] if said.strip() else ''}"
    if "from pytest-timeout" in said:
        return "it hung"
    last = next((line for line in reversed(said.splitlines()) if line.startswith("E ")), "")
    if re.match(r"E\s+(NameError|ImportError|ModuleNotFoundError|SyntaxError): ", last):
        return f"the code in the rule's place does not run: {last[1:].strip()}"
    return ""


def run_tests(tests: tuple[str, ...], *options: str) -> list[str]:
    """Which of the tests failed. pytest's own words go to stderr.

    Raises SystemExit when they did not run.
    """
    import pytest

    failures = Failures()
    usual = ["-q", "-p", "no:cacheprovider", "-n0", "--timeout", "60"]
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main([*usual, *options, *tests], plugins=[failures])
    if code == pytest.ExitCode.TESTS_FAILED:
        if not failures.names:
            raise SystemExit(f"the directed tests proved nothing: {failures.broken}")
        return failures.names
    if code != pytest.ExitCode.OK or not failures.ran:
        raise SystemExit(f"the directed tests did not run (pytest ended with {code}): {tests}")
    return []


def _failing_test(tests: tuple[str, ...]) -> str:
    """The first directed test that fails, "" when all pass."""
    return next(iter(run_tests(tests, "-x")), "")


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # The judgement is out. Threads and mappings that a failed test left must not end this process
    # in another way, or keep it.
    sys.stdout.flush()
    os._exit(code)
