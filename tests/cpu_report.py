"""Say where the processor time of a run of tests goes, when DLEDGER_TEST_CPU is set.

    DLEDGER_TEST_CPU=30 scripts/test tests/cluster     the 30 dearest files, and folders

Two figures a file, in seconds of processor time (user and system), which other load on the machine
hardly changes: `here` of the process that runs the tests, `apart` of all that it started (nodes,
commands, simulators of other processes), living or ended. What a worker spends before its first
test, on starting and collecting, has a row of its own, and so has the end of fixtures of a session.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

ASKED = "DLEDGER_TEST_CPU"
START, END = "(start, imports, collection)", "(end of the session)"
_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Seconds of one process of tests, by file: `here` of itself, `apart` of those it started."""

    def __init__(self) -> None:
        self.here: Counter[str] = Counter()
        self.apart: Counter[str] = Counter()
        self._file = START
        self._seen = (0.0, 0.0)

    def enter(self, file: str) -> None:
        """What was spent since the last call belongs to the file before; `file` is next."""
        if file == self._file:
            return
        now = time.process_time(), _of_started(os.getpid())
        self.here[self._file] += now[0] - self._seen[0]
        # Less than before when a process ended that its parent had left behind.
        self.apart[self._file] += max(0.0, now[1] - self._seen[1])
        self._file, self._seen = file, now

    def add(self, here: dict[str, float], apart: dict[str, float]) -> None:
        """Take in what another process has found."""
        self.here.update(here)
        self.apart.update(apart)

    def lines(self, rows: int) -> Iterator[str]:
        """A table of the sums, of folders and of the dearest `rows` files."""
        yield f"{'here':>8}{'apart':>8}  seconds of processor time"
        yield _line("in all", sum(self.here.values()), sum(self.apart.values()))
        for names in (_folders(self.here), list(self.here)):
            yield ""
            dearest = sorted(names, key=lambda name: -sum(self._sums(name)))
            yield from (_line(name, *self._sums(name)) for name in dearest[:rows])

    def _sums(self, name: str) -> tuple[float, float]:
        """Of a file, or of a folder, whose name ends with a slash."""
        if not name.endswith("/"):
            return self.here[name], self.apart[name]
        return (
            sum(value for file, value in self.here.items() if file.startswith(name)),
            sum(value for file, value in self.apart.items() if file.startswith(name)),
        )


def _line(name: str, here: float, apart: float) -> str:
    return f"{here:8.2f}{apart:8.2f}  {name}"


def _folders(files: Counter[str]) -> list[str]:
    """Two levels below tests/: `tests/cluster/broker/`."""
    found = {"/".join(file.split("/")[:-1][:3]) + "/" for file in files if "/" in file}
    return sorted(found)


def _of_started(process: int) -> float:
    """Seconds of the process's children, also ended ones, and of theirs."""
    spent, left = _of_ended(process), _children(process)
    while left:
        one = left.pop()
        spent += _of_itself(one) + _of_ended(one)
        left += _children(one)
    return spent


def _fields(process: int) -> list[str]:
    """Behind its name, which may hold blanks; empty when it has ended meanwhile."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _of_itself(process: int) -> float:
    return sum(map(int, _fields(process)[11:13])) / _TICKS


def _of_ended(process: int) -> float:
    return sum(map(int, _fields(process)[13:15])) / _TICKS


def _children(process: int) -> list[int]:
    found = []
    try:
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += [int(one) for one in (thread / "children").read_text().split()]
    except OSError:
        pass
    return found


class Plugin:
    """Meters each process of tests; xdist's workers hand theirs to the one that prints."""

    def __init__(self, rows: int) -> None:
        self._rows, self._meter = rows, Meter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._meter.enter(item.nodeid.partition("::")[0])
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._meter.enter(END)
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cpu"] = [dict(self._meter.here), dict(self._meter.apart)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._meter.add(*getattr(node, "workeroutput", {}).get("cpu", ({}, {})))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor time")
        for line in self._meter.lines(self._rows):
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    if rows := os.environ.get(ASKED):
        config.pluginmanager.register(Plugin(int(rows)), "cpu_report")
