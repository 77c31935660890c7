"""How far long work is: told on stderr, and not before it is long."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.commands import progress as module
from cluster.commands.progress import progress
from cluster.commands.repair import _percent
from tests.cluster.commands.test_move import STORE
from tests.waiting import wait_until


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All work is long."""
    monkeypatch.setattr(module, "TOLD_SECONDS", 0.01)


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def stderr(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> Stream:
    found = Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_short_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.TOLD_SECONDS == 2.0
    for terminal in (False, True):
        told = stderr(monkeypatch, terminal=terminal)
        with progress("n0: entry", 10) as done:
            done(10)
        assert told.getvalue() == ""


def test_the_lines_can_be_left_out(monkeypatch: pytest.MonkeyPatch, soon: None) -> None:
    monkeypatch.setenv("DLEDGER_PROGRESS", "no")
    told = stderr(monkeypatch, terminal=False)
    with progress("n0: entry", 10) as done:
        done(4)
        assert all(each.name != "progress" for each in threading.enumerate())
    assert told.getvalue() == ""


def test_without_a_terminal_there_are_plain_lines(
    monkeypatch: pytest.MonkeyPatch, soon: None
) -> None:
    told = stderr(monkeypatch, terminal=False)
    with progress("n0: entry", 10) as done:
        done(4)
        wait_until(lambda: told.getvalue().count("n0: entry 4 of 10\n") > 1, "two lines")
    assert "\x1b" not in told.getvalue()


def test_at_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch, soon: None) -> None:
    told = stderr(monkeypatch, terminal=True)
    with progress("n0: entry", 10) as done:
        done(4)
        wait_until(lambda: "n0: entry 4 of 10" in told.getvalue(), "the bar")
    assert "\x1b[2K" in told.getvalue(), "it is removed at the end"


def test_work_that_cannot_count_shows_its_seconds(
    monkeypatch: pytest.MonkeyPatch, soon: None
) -> None:
    told = stderr(monkeypatch, terminal=False)
    with progress("starting"):
        wait_until(lambda: told.getvalue(), "a line")
    assert re.match(r"starting, \d+ s so far\n", told.getvalue())


def test_it_ends_with_work_that_fails(monkeypatch: pytest.MonkeyPatch, soon: None) -> None:
    stderr(monkeypatch, terminal=False)
    with pytest.raises(OSError, match="full"), progress("n0: entry", 10):
        raise OSError("full")
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_every_long_step_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is imported, backed up, checked, restored and exported; no node runs."""
    steps: list[tuple[str, int | None, int]] = []

    @contextlib.contextmanager
    def told(what: str, last: int | None = None) -> Iterator[Callable[[int], None]]:
        numbers = [0]
        yield numbers.append
        assert numbers == sorted(numbers)
        steps.append((what, last, numbers[-1]))

    for command in ("backup", "move", "restore"):
        monkeypatch.setattr(f"cluster.commands.{command}.progress", told)

    def run(*words: str) -> list[tuple[str, int | None, int]]:
        steps.clear()
        found = CliRunner().invoke(dledger, [*words, "-o", "json"])
        assert found.exit_code == 0, found.output
        return [*steps]

    root, place = str(tmp_path / "c"), str(tmp_path / "backup")
    cluster = ("-n", "1", "--any-port", "--yes")
    reading, writing = run("import", str(STORE), "--root", root, *cluster)
    assert reading == (f"{STORE}: reading", None, 0)
    what, last, done = writing
    assert (what, done) == ("n0: entry", last)
    assert done > 211, "topics, groups and offsets come behind the messages"
    ((what, last, done),) = run("backup", "run", place, "--root", root)
    assert (what, done) == ("n0: entry", last)
    ((what, last, done),) = run("backup", "verify", place)
    assert (what.endswith(": part"), done) == (True, last)
    ((what, last, done),) = run("restore", place, "--root", str(tmp_path / "again"), *cluster)
    assert (what.endswith(": entry"), done) == (True, last)
    for kind in ("plain", "dledger"):
        out = str(tmp_path / kind)
        _, writing = run("export", str(STORE), out, "--format", kind, "--yes")
        assert writing == ("written: message", 211, 211)


def test_the_slowest_replica_says_how_far_a_scrub_is() -> None:
    states = [
        {"scrubbing": True, "pass_share": 0.42},
        {"scrubbing": False, "pass_share": 0.0},
        {"scrubbing": True, "pass_share": 0.9},
    ]
    assert _percent(states) == 42
    assert _percent(states[1:2]) == 100
