"""The machine that a run of tests finds: whether the run can succeed on it, and how quick it is.

Every process that a run starts inherits RUN_VARIABLE, so that the next run can tell what an earlier
one of the same checkout left, whatever it has become. Nothing else is ever ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
RUN_VARIABLE = "DLEDGER_TEST_RUN"
FACTOR_VARIABLE = "DLEDGER_TEST_FACTOR"
SLOWNESS_VARIABLE = "DLEDGER_TEST_SLOWNESS"
ADDRESSES_VARIABLE = "DLEDGER_TEST_ADDRESSES"
#: What each may write at the same time: the long layers recover two GiB on three nodes.
DISK_FREE_MIN = {"test": 6 << 30, "long": 12 << 30}
#: Brokers refuse producers on a disk that is 90 % full, as RocketMQ's do.
DISK_USED_MAX = 0.88
MEMORY_FREE_MIN = 2 << 30
#: Second bytes of 127/8 that runs share out among themselves (tests/conftest.py: new_address).
ADDRESSES = range(16, 216)
END_SECONDS_MAX = 5.0


class CannotSucceed(Exception):
    """The run would fail for a reason that is not the code's; the text says what to do."""


# -- can it succeed? -------------------------------------------------------------------------------


def require_room(kind: str) -> None:
    """Raises CannotSucceed when disk or memory are too short for the run."""
    folder, needed = tempfile.gettempdir(), DISK_FREE_MIN.get(kind, 1 << 30)
    disk = shutil.disk_usage(folder)
    if disk.free < needed or disk.used + needed > DISK_USED_MAX * (disk.used + disk.free):
        raise CannotSucceed(
            f"{folder} has {disk.free >> 30} GiB free: this run writes up to {needed >> 30} GiB,"
            " and brokers refuse producers above 90 % of a disk. Free some space, or set TMPDIR to"
            " a folder on another disk."
        )
    available = psutil.virtual_memory().available
    if available < MEMORY_FREE_MIN:
        raise CannotSucceed(
            f"{available >> 20} MiB of memory are free and {MEMORY_FREE_MIN >> 20} are needed: end"
            " something that uses memory, then run it again."
        )


@contextlib.contextmanager
def only_run_here() -> Iterator[None]:
    """Hold this checkout; raises CannotSucceed while another run of it has not ended."""
    (ROOT / ".tools").mkdir(exist_ok=True)
    with (ROOT / ".tools" / "run.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise CannotSucceed(
                f"process {lock.read().strip()} runs tests in this checkout: wait for it, or use"
                " another clone."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


# -- whose processes run? --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A process of the project that was there before the run."""

    process: psutil.Process
    what: str
    root: str  # the checkout whose run of tests started it, "" when that is not known
    runner_lives: bool


def sign(environment: dict[str, str]) -> None:
    """Mark what is started with `environment` as this run's."""
    me = psutil.Process()
    environment[RUN_VARIABLE] = json.dumps([str(ROOT), me.pid, me.create_time()])


def found_processes() -> list[Found]:
    """Processes of the project, of any checkout, that this run did not start."""
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in mine:
            continue
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            owner = process.environ().get(RUN_VARIABLE, "")
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            root, pid, born = json.loads(owner) if owner else ("", 0, 0.0)
            if owner or "-m cluster." in line or "-m chaos." in line or "/bin/dledger" in line:
                found.append(Found(process, line[:120], root, _lives(pid, born)))
    return found


def _lives(pid: int, born: float) -> bool:
    with contextlib.suppress(psutil.Error):
        return pid > 0 and abs(psutil.Process(pid).create_time() - born) < 0.5
    return False


def end_what_earlier_runs_left(found: list[Found]) -> Iterator[str]:
    """End what runs of this checkout left, whose runner is gone; say that, and what else runs."""
    left = [one for one in found if one.root == str(ROOT) and not one.runner_lives]
    for one in found:
        owner = f"of a run of tests in {one.root}" if one.root else "of no run of tests"
        if one in left:
            yield f"ended: process {one.process.pid}, left by an earlier run: {one.what}"
        else:
            yield f"beside this run: process {one.process.pid}, {owner}: {one.what}"
    end([one.process for one in left])


def left_by_this_run() -> list[psutil.Process]:
    """What this run started, and what has outlived the process that it was a child of."""
    me = psutil.Process()
    ours = {child.pid for child in me.children(recursive=True)}
    mine = json.dumps([str(ROOT), me.pid, me.create_time()])
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid in ours or process.pid == me.pid:
                continue
            if process.environ().get(RUN_VARIABLE) == mine:
                left.append(process)
    return left


def end(processes: list[psutil.Process]) -> None:
    """Ask each to end, then make it."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.resume()  # a stopped process hears nothing
            process.terminate()
    _, deaf = psutil.wait_procs(processes, timeout=END_SECONDS_MAX)
    for process in deaf:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(deaf, timeout=END_SECONDS_MAX)


# -- addresses and speed ---------------------------------------------------------------------------


@contextlib.contextmanager
def addresses() -> Iterator[int]:
    """The second byte of 127/8 for this run's tests; held while the run lasts.

    Raises CannotSucceed when other runs on this machine hold all of them.
    """
    folder = Path("/tmp") / f"dledger-addresses-{os.getuid()}"  # the same for all TMPDIRs
    folder.mkdir(exist_ok=True)
    count = len(ADDRESSES)
    for step in range(count):
        number = ADDRESSES[(os.getpid() + step) % count]
        with (folder / str(number)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield number
            return
    raise CannotSucceed(f"{count} runs of tests hold the addresses of this machine: end some.")


#: Seconds on a quiet machine of the kind that the tests' limits were written for.
LOOP_SECONDS, SYNC_SECONDS = 0.011, 0.002
FACTOR_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Speed:
    """How many times slower than the reference this machine is now: at computing, at syncing."""

    loop: float
    sync: float
    workers: float  # tests that run at the same time for each processor

    @property
    def slowness(self) -> float:
        """By what timeouts of elections are multiplied, which tests that kill a leader wait for."""
        return round(min(FACTOR_MAX, max(1.0, self.loop, self.sync)), 1)

    @property
    def factor(self) -> float:
        """By what the limits of all waits are multiplied."""
        return round(min(FACTOR_MAX, self.slowness * max(1.0, self.workers)), 1)

    def __str__(self) -> str:
        return (
            f"limits of waits times {self.factor}, timeouts of elections times {self.slowness}: a"
            f" loop takes {self.loop:.1f} times the reference, a sync {self.sync:.1f} times,"
            f" {self.workers:g} workers for each processor"
        )


def measure(workers: int) -> Speed:
    """Takes about a second. What else runs on the machine is part of the result."""
    loops, syncs = [], []
    with tempfile.TemporaryFile() as file:
        for _ in range(20):
            started = time.perf_counter()
            total = 0
            for number in range(200_000):
                total += number
            loops.append(time.perf_counter() - started)
            started = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            syncs.append(time.perf_counter() - started)
    processors = len(os.sched_getaffinity(0))
    return Speed(
        statistics.median(loops) / LOOP_SECONDS,
        statistics.median(syncs) / SYNC_SECONDS,
        workers / processors,
    )
