"""Runs all mutants, each in a process of its own, several at once, and collects their fates."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chaos.mutants.mutant import Mutant
from chaos.mutants.table import find
from chaos.tools.pool import for_a_child, map_unordered

TRIES_MAX = 3
#: A mutant that runs this long hangs; seconds. The slowest honest one takes a third of it.
HANG_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of one mutant.

    Attributes:
        killed: every killer that it has in the table noticed, or it hangs as it is said to.
        tests: of each arena's directed tests the first that failed.
        seed: the first seed that showed a violation, -1 for none; `again` is its command line.
        missed: letters of arenas (spec_rows.py) whose killers noticed nothing.
        broke: why there is no judgement: the last lines of a child that ended without one, or a
            hang that the table does not tell of; "" otherwise. Such a mutant is not killed.
    """

    name: str
    rules: tuple[str, ...]
    rows: tuple[str, ...]
    killed: bool
    seconds: float
    tests: tuple[str, ...] = ()
    seed: int = -1
    again: str = ""
    detail: str = ""
    missed: str = ""
    hung: bool = False
    broke: str = ""
    tries: int = 1

    @property
    def by(self) -> str:
        """Names the killers: "seed 17, the 18th" and "tests/…::test_…"; "" if there was none."""
        words = [f"seed {self.seed}, the {ordinal(self.seed + 1)}"] if self.seed >= 0 else []
        words += ["hung"] if self.hung and self.killed else []
        return " · ".join([*words, *self.tests])


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th, … 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}th" if number % 100 in (11, 12, 13) else f"{number}{ending}"


def run_mutant(mutant: Mutant) -> Fate:
    """Run one mutant in a child, TRIES_MAX times at most until it is killed.

    Some killers are tests with real disks and processes, in which the broken rule may go unnoticed
    once; `tries` tells it, so that such a test is seen and made stricter. Seeds do not vary, nor
    does a hang: those are not asked again.
    """
    fate = _run_once(mutant)
    while not fate.killed and not fate.hung and fate.missed != "D" and fate.tries < TRIES_MAX:
        fate = replace(_run_once(mutant), tries=fate.tries + 1)
    return fate


def _run_once(mutant: Mutant) -> Fate:
    command = [sys.executable, "-m", "chaos.mutants.child", mutant.name]
    began = time.monotonic()
    lived = Fate(mutant.name, mutant.rules, mutant.rows, False, HANG_MAX)
    try:
        done = run_child(command, timeout=HANG_MAX)
    except subprocess.TimeoutExpired:
        if mutant.hangs:
            return replace(lived, killed=True, hung=True)
        return replace(lived, hung=True, broke=f"hung: no judgement within {HANG_MAX:g} s")
    if done.returncode != 0:
        last = "\n".join(done.stderr.splitlines()[-15:]) or f"exit code {done.returncode}"
        return replace(lived, seconds=round(time.monotonic() - began, 2), broke=last)
    found = json.loads(done.stdout.splitlines()[-1])
    found["tests"] = tuple(found["tests"])
    return replace(lived, killed=not found["missed"], **found)


def run_child(
    command: Sequence[str], *, timeout: float, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that begins with `end_with_parent`; `text` is its standard input.

    In a session of its own: Ctrl-C on the terminal reaches it by way of us, and once.
    Raises subprocess.TimeoutExpired.
    """
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=for_a_child(),
        start_new_session=True,
    )


def run_all(
    mutants: Sequence[Mutant], jobs: int, progress: Callable[[Fate], None] = lambda fate: None
) -> list[Fate]:
    """Every mutant that is not argued away, in the order of the table."""
    wanted = [mutant.name for mutant in mutants if not mutant.argued]
    fates: dict[str, Fate] = {}
    for name, fate in map_unordered(_run_named, wanted, jobs):
        fates[name] = fate
        progress(fate)
    return [fates[name] for name in wanted]


def _run_named(name: str) -> Fate:
    """In a process of the pool: it waits for the mutant's own, and ends when it is asked to."""
    return run_mutant(find(name))
