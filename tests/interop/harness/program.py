"""A Java program of ours that is told orders on its input and answers each with a line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

from . import toolchains


@dataclass(slots=True)
class Program:
    """One that runs; `home` has the client's logs."""

    process: subprocess.Popen[str]
    home: Path

    def ask(self, order: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or "{}")
        assert answer, "the program ended"
        return answer

    def until(self, done: Callable[[dict[str, Any]], bool], seconds_max: float = 30.0) -> None:
        def reached() -> bool:
            return done(self.ask("mark"))

        wait_until(reached, "the program's counts are as wanted", seconds_max)

    def log(self) -> str:
        files = self.home.rglob("rocketmqlogs/*.log")
        return "\n".join(file.read_text(errors="replace") for file in files)


@contextmanager
def running(version: str, main: str, arguments: Sequence[str], home: Path) -> Iterator[Program]:
    """Start class `main` with that version of the official client; killed at the end."""
    command = [*toolchains.java(version), f"-Duser.home={home}", main, *arguments]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stderr").open("w") as said:
        process = subprocess.Popen(
            command,
            cwd=home,
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
