"""Who ends a live run early, however impatiently, finds nothing of it on the machine afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from chaos.drivers import loop_disk
from chaos.drivers.loop_disk import LoopDisks
from chaos.live import namespaces
from chaos.live.interrupted import CLEANING_UP, in_thread
from tests.waiting import limit, wait_until

from .commands import DLEDGER, ROOT

SLOW_TO_CLEAN_UP = """
import asyncio, sys
from chaos.live import interrupted

async def main():
    print("runs", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.to_thread(sys.stdin.readline)
        print("put away", flush=True)

try:
    interrupted.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

INT, TERM = signal.SIGINT, signal.SIGTERM


def _send(process: subprocess.Popen[str], numbers: Sequence[signal.Signals]) -> None:
    """To the whole group, as a terminal does; each has been heard before the next."""
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        wait_until(partial(_is_heard, process.pid, number), "it is heard")


def _is_heard(pid: int, number: signal.Signals) -> bool:
    """Whether the kernel has delivered a signal."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("ShdPnd:"):
                return not int(line.split()[1], 16) >> number - 1 & 1
    return True  # it has ended


@contextlib.contextmanager
def _started(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("numbers", [(INT,), (TERM,), (INT, INT, INT), (TERM, INT), (INT, TERM)])
def test_nothing_interrupts_the_clean_up(numbers: tuple[signal.Signals, ...]) -> None:
    with _started(sys.executable, "-c", SLOW_TO_CLEAN_UP) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        _send(process, numbers)
        said, complaints = process.communicate("\n", timeout=limit(20))
    assert said == "put away\ninterrupted\n"
    assert complaints == f"{CLEANING_UP}\n"


async def test_a_thread_has_ended_when_its_cancelled_wait_has() -> None:
    began, may_end, made = threading.Event(), threading.Event(), []

    def make() -> None:
        began.set()
        may_end.wait()
        made.append("all of it")

    waiting = asyncio.ensure_future(in_thread(make))
    await asyncio.to_thread(began.wait)
    waiting.cancel()
    for _ in range(10):  # turns of the loop
        await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert made


def test_a_cut_that_comes_late_mounts_nothing(tmp_path: Path) -> None:
    disks = LoopDisks(tmp_path, {"n0": tmp_path / "n0"})
    disks.__exit__()
    with pytest.raises(OSError, match="the run was ended"):
        disks.cut(["n0"], [tmp_path])


@pytest.mark.parametrize(
    ("network", "numbers", "begun"),
    [
        ("proxies", (INT, INT), "history.jsonl"),  # clients at work
        ("namespaces", (TERM, INT), "cluster/n0/process.json"),  # nodes start
    ],
)
def test_no_disk_no_network_and_no_process_stays(
    tmp_path: Path, network: str, numbers: tuple[signal.Signals, ...], begun: str
) -> None:
    needed = (loop_disk.why_not(), namespaces.why_not() if network == "namespaces" else "")
    if reason := next(filter(None, needed), ""):
        pytest.skip(f"not here: {reason}")
    out = tmp_path / "run"
    options = ("--faults", "power-loss", "--seconds", "12", "--network", network, "--out", out)
    with _started(DLEDGER, "chaos", "run", *options) as process:
        wait_until((out / begun).exists, f"{begun} is written")
        assert _left(out, process.pid)

        def has_ended() -> bool:
            _send(process, numbers)
            return process.poll() is not None

        wait_until(has_ended, "it ends", 60)  # asked again and again while the clean-up lasts
        _, complaints = process.communicate(timeout=limit(40))
        left = _left(out, process.pid)
    assert (left, "the clean-up failed" in complaints) == ([], False), complaints
    assert process.returncode == 255
    assert "Traceback" not in complaints
    assert complaints.count(CLEANING_UP) == 1
    assert "says nothing about the cluster" in complaints


def _left(root: Path, pid: int) -> list[str]:
    """Mounts, loop devices, processes and networks of the run in this folder."""
    name = str(root)
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found = [line for line in mounts if name in line]
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # it may go while we look
            found += [text for text in [device.read_text()] if name in text]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != pid and name in " ".join(process.cmdline()):
                found.append(str(process))
    for folder in (namespaces.MOUNTS, namespaces.INTERFACES):
        found += [str(path) for path in folder.glob(f"dl{pid}*")]
    return found
