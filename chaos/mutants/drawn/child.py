"""One drawn mutant in this process: tests that import its module, seeds, tests of the neighbours.

    python -m chaos.mutants.drawn.child NUMBER

Prints one JSON object: {"by": "tests/…::test_…", "seed 17" or ""}; "" where nothing noticed.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from chaos.mutants.drawn.draw import Drawn, draw, path_of
from chaos.mutants.drawn.killers import folders, importers
from chaos.pool import end_with_parent

if TYPE_CHECKING:
    import pytest

SEEDS = 200
#: Simulated seconds of a seed.
SECONDS = 60.0


def main(arguments: list[str]) -> int:
    end_with_parent()
    mutant = draw()[int(arguments[0])]
    sys.meta_path.insert(0, _Finder(mutant))
    print(json.dumps({"by": killer(mutant)}))
    return 0


def killer(mutant: Drawn) -> str:
    """What notices first; "" for nothing."""
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


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed text; never reads or writes a cached file."""

    def __init__(self, mutant: Drawn) -> None:
        super().__init__(mutant.module, str(path_of(mutant.module)))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._mutant.source(), self.path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Drawn) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        loader = _Loader(self._mutant)
        return importlib.util.spec_from_loader(fullname, loader, origin=loader.path)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
