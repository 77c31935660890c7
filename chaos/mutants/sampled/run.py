"""All drawn mutants, each in a process of its own; their fates go to a file line by line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.mutants.run import run_child
from chaos.mutants.sampled.draw import SampledMutant, draw
from chaos.tools.pool import map_unordered

#: Asking every test and 200 seeds takes less; what lasts longer hangs. Seconds.
SECONDS_MAX = 1_500.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """The fate of one drawn mutant.

    Attributes:
        name: module, line and change.
        change: the line before and after.
        by: the test or seed that noticed first, "hung", or "" for nothing.
    """

    name: str
    change: str
    by: str
    seconds: float


def run_sampled(number: int, seconds_max: float = SECONDS_MAX) -> Drawing:
    """One mutant by its number in the drawing. Raises RuntimeError when its process broke."""
    mutant = draw()[number]
    began = time.monotonic()
    command = [sys.executable, "-m", "chaos.mutants.sampled.child", str(number)]
    try:
        done = run_child(command, timeout=seconds_max)
        if done.returncode or not done.stdout.strip():
            # A change may end the process itself; a child that cannot even begin is our mistake.
            by = f"its process ended with {done.returncode}: {done.stderr.strip()[-200:]}"
        else:
            by = str(json.loads(done.stdout.splitlines()[-1])["by"])
    except subprocess.TimeoutExpired:
        by = "hung"
    return Drawing(mutant.name, mutant.shown(), by, round(time.monotonic() - began, 1))


def run_all(
    file: Path, jobs: int, told: Callable[[Drawing], None], mutants: Sequence[SampledMutant] = ()
) -> list[Drawing]:
    """Run the mutants without a result in the file; returns the results of all, in order."""
    wanted = list(mutants) or draw()
    known = {drawing.name: drawing for drawing in read(file)}
    numbers = [number for number, mutant in enumerate(wanted) if mutant.name not in known]
    _end_the_last_line(file)
    with file.open("a", encoding="utf-8") as lines:
        for _, drawing in map_unordered(run_sampled, numbers, jobs):
            known[drawing.name] = drawing
            lines.write(json.dumps(asdict(drawing)) + "\n")
            lines.flush()
            told(drawing)
    return [known[mutant.name] for mutant in wanted]


def _end_the_last_line(file: Path) -> None:
    """A run that was killed may have left half a line."""
    if file.exists() and (text := file.read_text(encoding="utf-8")) and not text.endswith("\n"):
        file.write_text(f"{text}\n", encoding="utf-8")


def read(file: Path) -> list[Drawing]:
    """Reads a file of drawings; an unfinished last line is passed over."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            found.append(Drawing(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found
