"""`dledger mutants` ends when it is asked to, and so does everything that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos.tools.pool import end_with_parent, for_a_child
from tests.waiting import limit, wait_until

ROOT = Path(__file__).parents[3]
DLEDGER = str(Path(sys.executable).with_name("dledger"))
JOBS = 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_command(number: signal.Signals) -> None:
    command = subprocess.Popen(
        [DLEDGER, "mutants", "--jobs", str(JOBS)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(_children_of_mutants(command.pid)) >= JOBS, "the jobs run")
        workers = psutil.Process(command.pid).children(recursive=True)
        # A terminal sends Ctrl-C to the whole group; the others go to the command alone.
        (os.killpg if number is signal.SIGINT else os.kill)(command.pid, number)
        _, complaints = command.communicate(timeout=limit(60))
        assert command.returncode == (255 if number is signal.SIGINT else -number)
        assert "Traceback" not in complaints
        _, alive = psutil.wait_procs(workers, timeout=limit(15))
        assert not alive
    finally:
        command.kill()
        command.communicate()


def _children_of_mutants(pid: int) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found += [process] if "chaos.mutants.child" in process.cmdline() else []
        except psutil.NoSuchProcess:
            continue
    return found


ORPHAN = "from chaos.tools.pool import end_with_parent; end_with_parent(); print('went on')"


def test_a_child_whose_parent_has_ended_meanwhile_does_not_begin() -> None:
    around = for_a_child()
    words = [sys.executable, "-c", ORPHAN]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=around)
    assert (done.returncode, done.stdout) == (0, "went on\n")
    name = next(name for name in around if name not in os.environ)
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=around | {name: "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "has ended" in done.stderr


def test_a_process_that_somebody_starts_by_hand_keeps_its_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    end_with_parent()
    assert signal.getsignal(signal.SIGTERM) is before
