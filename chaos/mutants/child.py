"""One mutant in this process: patch, then run its killers until one of them turns red.

    python -m chaos.mutants.child NAME [--seeds N]

Prints one JSON object: killed, by, detail, seeds, seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import install
from chaos.mutants.table import find

if TYPE_CHECKING:
    import pytest


def main(arguments: list[str]) -> int:
    mutant = find(arguments[0])
    seeds = int(arguments[2]) if len(arguments) > 2 else mutant.seeds
    began = time.monotonic()
    install(mutant.patches)
    by, detail, tried = _run(mutant, seeds)
    print(
        json.dumps(
            {
                "name": mutant.name,
                "killed": bool(by),
                "by": by,
                "detail": detail,
                "seeds": tried,
                "seconds": round(time.monotonic() - began, 2),
            }
        )
    )
    return 0


def _run(mutant: Mutant, seeds: int) -> tuple[str, str, int]:
    """(killer or "", what it saw, seeds tried)."""
    if mutant.tests:
        failed = _failing_test(mutant.tests)
        if failed:
            return failed, "", 0
    if not seeds:
        return "", "", 0
    from chaos.sim.runner import Plan
    from chaos.sim.world import run_seed

    plan = Plan(0, seeds, mutant.nodes, 60.0)
    for seed in range(seeds):
        result = run_seed(seed, plan.nodes_of(seed), plan.seconds)
        if result.violation:
            said = f"{result.violation}: {result.detail}"
            return plan.again(seed), said, seed + 1
    return "", "", seeds


class _FirstFailure:
    """A pytest plug-in that remembers which test failed."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def _failing_test(tests: tuple[str, ...]) -> str:
    """The first directed test that fails, "" when all pass. pytest's own words go to stderr."""
    import pytest

    first = _FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-n0", "--timeout", "60"]
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main([*options, *tests], plugins=[first])
    if code == pytest.ExitCode.TESTS_FAILED:
        return first.name
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"the directed tests did not run (pytest ended with {code}): {tests}")
    return ""


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # The judgement is out. Threads and mappings that a failed test left must not end this process
    # in another way, or keep it.
    sys.stdout.flush()
    os._exit(code)
