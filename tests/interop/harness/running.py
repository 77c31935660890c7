"""Runs a foreign program that prints one JSON line per scenario, or one per order that it reads."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import limit, wait_until

Facts = dict[str, Any]

# What waits longest (two rebalances, a check of transactions) takes one minute; they run together.
RUN_SECONDS_MAX = 240


@dataclass(slots=True)
class Run:
    """What one run of a program said: scenario → facts; `seconds` of it all."""

    facts: dict[str, Facts]
    seconds: float
    said: str = field(repr=False)

    def of(self, scenario: str) -> Facts:
        """The facts of a scenario that worked. Fails with the program's words otherwise."""
        found = self.facts.get(scenario)
        assert found is not None, f"{scenario} did not answer; the program said:\n{self.said}"
        where = "\n  ".join(found.get("stack", ()))
        assert "error" not in found, f"{scenario} failed: {found['error']}\n  {where}"
        return found


def run(command: Sequence[str], home: Path, seconds_max: float = RUN_SECONDS_MAX) -> Run:
    """Run it with a home folder of its own: the libraries write logs and offsets there."""
    home.mkdir(parents=True, exist_ok=True)
    # Java does not look at HOME.
    options = f"-Duser.home={home} {os.environ.get('JAVA_TOOL_OPTIONS', '')}".strip()
    environment = {**os.environ, "HOME": str(home), "JAVA_TOOL_OPTIONS": options}
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="backslashreplace",
    )
    try:
        out, said = process.communicate(timeout=limit(seconds_max))
    except subprocess.TimeoutExpired:
        process.kill()
        out, said = process.communicate()
        said += f"\n(it did not end in {limit(seconds_max):.0f} s)"
    facts = {}
    for line in out.splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            facts[one["scenario"]] = one
    return Run(facts, time.monotonic() - began, said[-4000:])


@dataclass(slots=True)
class Program:
    """A producer and a consumer that run until they are told to stop: `started` below.

    On stdin `mark` asks for counts (sent, acked, failed, received), `stop` for everything.
    """

    process: subprocess.Popen[str]
    home: Path

    def ask(self, order: str) -> Facts:
        """The answer to one order. Fails with the program's words when it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        answer: Facts = json.loads(self.process.stdout.readline() or "{}")
        assert answer, f"the program ended:\n{(self.home / 'stderr').read_text()[-2000:]}"
        return answer

    def until(self, done: Callable[[Facts], bool], seconds_max: float = 30.0) -> Facts:
        """The counts that `done` took."""
        counts: Facts = {}

        def reached() -> bool:
            counts.update(self.ask("mark"))
            return done(counts)

        wait_until(reached, "the program's counts are as wanted", seconds_max)
        return counts

    def log(self) -> str:
        """What a Java client logged."""
        files = self.home.rglob("rocketmqlogs/*.log")
        return "\n".join(file.read_text(errors="replace") for file in files)


@contextmanager
def started(command: Sequence[str], home: Path) -> Iterator[Program]:
    """The program with a home folder of its own; it is killed at the end."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stderr").open("w") as said:
        process = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, "HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    try:
        yield Program(process, home)
    finally:
        process.kill()
        process.communicate()
