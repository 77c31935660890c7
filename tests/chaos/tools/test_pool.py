"""Work on several processes ends with the command that wanted it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos.tools.pool import map_unordered
from tests.waiting import limit, wait_until

ROOT = Path(__file__).parents[3]


def _square(number: int) -> int:
    if number == 13:
        raise ValueError("thirteen")
    return number * number


def test_everything_comes_once() -> None:
    found = dict(map_unordered(_square, range(10), 3))
    assert found == {number: number * number for number in range(10)}
    assert list(map_unordered(_square, (), 3)) == []


def test_a_mistake_and_an_endless_list_end() -> None:
    with pytest.raises(ValueError, match="thirteen"):
        dict(map_unordered(_square, itertools.count(), 2))


def test_who_stops_asking_stops_the_processes() -> None:
    before = set(psutil.Process().children())
    works = map_unordered(_square, itertools.chain(range(5), itertools.count(20)), 2)
    assert next(works)[0] < 5
    works.close()
    gone, alive = psutil.wait_procs(set(psutil.Process().children()) - before, timeout=limit(10))
    assert not alive
    assert len(gone) <= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_command_ends_its_workers(number: signal.Signals) -> None:
    dledger = str(Path(sys.executable).with_name("dledger"))
    words = [dledger, "sim", "--seeds", "0..999999", "--jobs", "2"]
    command = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        parent = psutil.Process(command.pid)
        wait_until(lambda: len(parent.children()) >= 2, "there are two workers")
        workers = parent.children()
        os.kill(command.pid, number)
        code = command.wait(timeout=limit(60))
        assert code == (255 if number is signal.SIGINT else -number)
        _, alive = psutil.wait_procs(workers, timeout=limit(10))
        assert not alive
    finally:
        command.kill()  # its workers end with it
        command.wait()


INTERRUPTED_AS_IT_FORKS = """
import itertools, os, signal, time
from chaos.tools.pool import map_unordered

def after() -> None:
    global asked
    if not asked:
        asked = True
        os.kill(os.getpid(), signal.SIGINT)

asked = False
os.register_at_fork(after_in_parent=after)
try:
    for _ in map_unordered(time.sleep, itertools.repeat(0.05), 2):
        pass
except KeyboardInterrupt:
    print("heard")
"""


def test_ctrl_c_is_heard_while_a_process_is_made() -> None:
    """Python drops what is raised in hooks of a fork: the command went on for ever."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AS_IT_FORKS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit(60),
    )
    assert done.stdout == "heard\n", done.stderr
