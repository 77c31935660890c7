"""Builds our small Go program around porcupine, and asks it about histories.

    history, final logs ─► one JSON line ─► go/ (model.go, steps.go, judge.go) ─► one JSON line

Two models. *queue*: the final log is what a log became, entry by entry; an order of all appends and
reads must explain every answer. *register*: an append writes, a read sees the last write; offsets
and logs are not looked at, so it judges what clients saw alone, and is weaker.

Nothing is shared with the sweep and the search of `chaos.checkers`: another language, another
author's search, another model. Polls, groups and sessions are not its business.

Needs Go (1.21 or later) and, for the first build, Go's module proxy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaos.checkers.queues import Replica
from chaos.checkers.verdict import Word
from chaos.history import Operation
from chaos.tools import go_builds

SOURCE = Path(__file__).with_name("go")
BUILD_SECONDS_MAX = 1500.0  # the first build compiles Go's library on a machine that does more

Model = Literal["queue", "register"]


class PorcupineError(Exception):
    """Porcupine could not be built or run; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """One history; `replicas` is node → queue → [(offset, value)], as a run's folder holds it."""

    name: str
    history: Sequence[Operation]
    replicas: Mapping[str, Replica]

    def to_json(self) -> str:
        """The one line that the Go program reads."""
        operations = ",".join(op.to_json() for op in self.history)
        replicas = json.dumps(self.replicas, separators=(",", ":"))
        return f'{{"name":{json.dumps(self.name)},"history":[{operations}],"replicas":{replicas}}}'


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of Porcupine. UNKNOWN: it ran out of time, or cannot judge this history; `because`
    gives the reason."""

    name: str
    word: Word
    operations: int
    because: str


def why_not() -> str:
    """Why it cannot be built here; "" when it can."""
    return "" if shutil.which("go") else "needs go on the path (Debian package golang-go)"


def sources() -> list[Path]:
    """Returns the source files of the program."""
    return sorted([*SOURCE.glob("*.go"), SOURCE / "go.mod", SOURCE / "go.sum"])


def build(folder: Path, cache: Path = go_builds.CACHE) -> Path:
    """Build the program into `folder`; its path. Raises PorcupineError."""
    if reason := why_not():
        raise PorcupineError(f"porcupine cannot be asked: {reason}")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-o", str(folder / "judge"), "."]
    try:
        done = subprocess.run(
            command,
            cwd=SOURCE,
            env=go_builds.environment(cache, GOTOOLCHAIN="local"),
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PorcupineError(f"go build did not end in {BUILD_SECONDS_MAX:g} s") from error
    if done.returncode:
        raise PorcupineError(f"porcupine could not be built: {done.stderr.strip()[-1000:]}")
    return folder / "judge"


def ask(
    program: Path,
    questions: Iterable[Question],
    *,
    model: Model = "queue",
    seconds_max: float = 60.0,
) -> list[Answer]:
    """One answer a question, in order. Raises PorcupineError.

    `seconds_max`: patience for one history; after it the word is UNKNOWN.
    """
    command = [str(program), "-model", model, "-seconds", f"{seconds_max:g}"]
    lines = "".join(question.to_json() + "\n" for question in questions)
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PorcupineError(f"{program} cannot be run: {error}") from error
    if done.returncode:
        raise PorcupineError(f"porcupine refused its input: {done.stderr.strip()[-1000:]}")
    return [_answer(line) for line in done.stdout.splitlines()]


def _answer(line: str) -> Answer:
    found = json.loads(line)
    word = Word[found["verdict"].upper()]
    return Answer(found["name"], word, found["operations"], found["because"])
