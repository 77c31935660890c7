"""All mutants, each in a process of its own, several at once; and what became of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from chaos.mutants.mutant import Mutant

TRIES_MAX = 3
#: A mutant that runs this long hangs; seconds. The slowest honest one takes a third of it.
HANG_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one mutant.

    `by`: the line that kills it again; "hang" when it never ended. `broke`: the last lines of a
    child that ended without a judgement, "" otherwise; such a mutant is not killed.
    """

    name: str
    rules: tuple[str, ...]
    killed: bool
    by: str
    detail: str
    seconds: float
    broke: str = ""
    tries: int = 1


def run_mutant(mutant: Mutant) -> Fate:
    """Run one mutant in a child, TRIES_MAX times at most until it is killed.

    Some killers are tests with real disks and processes, in which the broken rule may go unnoticed
    once; `tries` tells it, so that such a test is seen and made stricter.
    """
    fate = _run_once(mutant)
    while not fate.killed and fate.tries < TRIES_MAX:
        fate = replace(_run_once(mutant), tries=fate.tries + 1)
    return fate


def _run_once(mutant: Mutant) -> Fate:
    command = [sys.executable, "-m", "chaos.mutants.child", mutant.name]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_MAX)
    except subprocess.TimeoutExpired:
        return Fate(mutant.name, mutant.rules, True, "hang", "", HANG_MAX)
    if done.returncode != 0:
        last = "\n".join(done.stderr.splitlines()[-15:]) or f"exit code {done.returncode}"
        return Fate(
            mutant.name, mutant.rules, False, "", "", round(time.monotonic() - began, 2), last
        )
    found = json.loads(done.stdout.splitlines()[-1])
    return Fate(
        mutant.name,
        mutant.rules,
        found["killed"],
        found["by"],
        found["detail"],
        found["seconds"],
    )


def run_all(
    mutants: Sequence[Mutant], jobs: int, progress: Callable[[Fate], None] = lambda fate: None
) -> list[Fate]:
    """Every mutant that is not argued away, in the order of the table."""
    wanted = [mutant for mutant in mutants if not mutant.argued]
    fates: dict[str, Fate] = {}
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run_mutant, mutant) for mutant in wanted]
        for future in as_completed(running):
            fate = future.result()
            fates[fate.name] = fate
            progress(fate)
    return [fates[mutant.name] for mutant in wanted]
