"""One drawn mutant in this process: tests that import its module, seeds, tests of the neighbours.

    python -m chaos.mutants.sampled.child NUMBER

Prints one JSON object: {"by": "tests/…::test_…", "seed 17" or ""}; "" where nothing noticed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaos.mutants.patch import install_changes
from chaos.mutants.sampled.draw import SampledMutant, draw
from chaos.mutants.sampled.killers import folders, importers
from chaos.tools.pool import end_with_parent

if TYPE_CHECKING:
    import pytest

SEEDS = 200
#: Simulated seconds of a seed.
SECONDS = 60.0


def main(arguments: list[str]) -> int:
    """Looks for a killer of the drawn mutant of this number; prints it as JSON, returns 0."""
    end_with_parent()
    mutant = draw()[int(arguments[0])]
    install_changes({mutant.module: mutant.change.applied})
    print(json.dumps({"by": killer(mutant)}))
    return 0


def killer(mutant: SampledMutant) -> str:
    """Returns the first test or seed that notices the mutant; "" if none does."""
    direct = importers(mutant.module)
    if direct and (test := _failing_test(direct)):
        return test
    if seed := _failing_seed(mutant.module):
        return seed
    for folder in folders(mutant.module):
        if test := _failing_test([folder]):
            return test
    return ""


def _failing_seed(module: str) -> str:
    """The first seed that shows a violation, in words; "" when the simulator never imports it."""
    try:
        from chaos.sim.profile import USUAL
        from chaos.sim.runner import Plan

        plan = Plan(0, SEEDS, 0, SECONDS, USUAL)
        plan.run(0)
        if module not in sys.modules:
            return ""
        for seed in range(SEEDS):
            if plan.run(seed).violation:
                return f"seed {seed}"
    except Exception as error:
        return f"the simulator: {type(error).__name__}"
    return ""


class _First:
    """A pytest plug-in that remembers the first test that failed, in any of its phases."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def _failing_test(paths: Sequence[str]) -> str:
    import pytest

    first = _First()
    options = ["-q", "-x", "-p", "no:cacheprovider", "-n0", "--timeout", "60", "-m", "not long"]
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main([*options, *paths], plugins=[first])
    if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    return first.name or f"pytest ended with {int(code)} in {paths[0]}"


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
