"""A run ends what earlier runs of its own checkout left, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from scripts.layers import machine
from scripts.layers.machine import ROOT, RUN_VARIABLE, CannotSucceed, Speed

SLEEPER = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    """A process of a run whose runner is gone (no process has lived since 1970)."""
    owner = json.dumps([str(ROOT), os.getpid(), 0.0])
    with _started(owner) as child:
        yield child


class _started:
    def __init__(self, owner: str) -> None:
        self._environment = {**os.environ, RUN_VARIABLE: owner}

    def __enter__(self) -> subprocess.Popen[str]:
        self._child = subprocess.Popen(
            [sys.executable, "-c", SLEEPER],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "up\n"
        return self._child

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()


def _of(child: subprocess.Popen[str]) -> list[machine.Found]:
    return [one for one in machine.found_processes() if one.process.pid == child.pid]


def test_process_of_a_run_that_is_gone_is_ended_and_named(sleeper: subprocess.Popen[str]) -> None:
    (line,) = machine.end_what_earlier_runs_left(_of(sleeper))
    assert f"ended: process {sleeper.pid}" in line
    assert sleeper.poll() is not None


def test_stopped_process_of_a_run_that_is_gone_is_ended(sleeper: subprocess.Popen[str]) -> None:
    psutil.Process(sleeper.pid).suspend()
    list(machine.end_what_earlier_runs_left(_of(sleeper)))
    assert sleeper.poll() is not None


@pytest.mark.parametrize("root", [str(ROOT), "/another/checkout"])
def test_process_of_a_living_run_or_another_checkout_is_named_and_left(root: str) -> None:
    lives = root == str(ROOT)
    born = psutil.Process().create_time() if lives else 0.0
    with _started(json.dumps([root, os.getpid(), born])) as child:
        (line,) = machine.end_what_earlier_runs_left(_of(child))
        assert f"beside this run: process {child.pid}, of a run of tests in {root}" in line
        assert child.poll() is None


def test_two_runs_never_share_addresses() -> None:
    with ExitStack() as stack:
        taken = [stack.enter_context(machine.addresses()) for _ in range(3)]
        assert len(set(taken)) == 3
        assert all(number in machine.ADDRESSES for number in taken)


def test_disk_without_room_is_one_sentence_and_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(machine.DISK_FREE_MIN, "test", 1 << 60)
    with pytest.raises(CannotSucceed, match="Free some space"):
        machine.require_room("test")


@pytest.mark.parametrize(
    ("speed", "factor"),
    [
        (Speed(0.5, 0.5, 0.5), 1.0),
        (Speed(1.0, 1.0, 2.0), 2.0),
        (Speed(1.5, 3.0, 2.0), 6.0),
        (Speed(40.0, 1.0, 2.0), machine.FACTOR_MAX),
    ],
)
def test_factor_follows_the_slowest_part_of_the_machine(speed: Speed, factor: float) -> None:
    assert speed.factor == factor
