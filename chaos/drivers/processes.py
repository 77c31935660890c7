"""Kinds 1–5 and 11: signals, limits and quotas of the node's own process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from chaos.drivers import remains
from chaos.drivers.stage import Fault, Stage
from cluster.local import processes

CPU_CGROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct"))
FREEZER = Path("/sys/fs/cgroup/freezer")
CPU_PERIOD_US = 100_000
CPU_QUOTA_US = 5_000  # 5 %
CPU_QUOTA_MIN_US = 1_000  # the least that the kernel takes
STUTTER_SECONDS = 0.01  # stopped and running in turn: 50 Hz
FILE_LIMIT_BYTES = 8192  # below the first record of a log that has been written to for a while
EFFECT_SECONDS_MAX = 5.0
OPENED_SECONDS_MAX = 15.0  # until a started process opens its first file, on a busy machine
RECOVERS_SECONDS = 0.25  # most recoveries take longer


async def kill(stage: Stage) -> str:
    """SIGKILL, and start again."""
    before = [process for node in stage.nodes if (process := stage.process(node))]
    await stage.kill(stage.nodes)
    gone = [process.pid for process in before if is_dead(process)]
    await stage.hold()
    for node in stage.nodes:
        await stage.start(node)
    return f"processes {gone} ended by SIGKILL" if gone else ""


def is_dead(process: psutil.Process) -> bool:
    """Gone, or only waiting to be reaped."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def stop(stage: Stage) -> str:
    """SIGTERM: the node hands leadership over, saves and ends by itself."""
    began = time.monotonic()
    killed = await asyncio.to_thread(processes.stop, [stage.folder(stage.node)])
    took = time.monotonic() - began
    ended = not stage.running(stage.node)
    await stage.hold()
    await stage.start(stage.node)
    how = "had to be killed" if killed else "ended by itself"
    return f"{stage.node} {how} after {took:.2f} s" if ended else ""


async def crash_loop(stage: Stage) -> str:
    """Killed, and killed again while it recovers: its files are open, and it is not ready."""
    times = stage.random.randint(2, 3)
    died = 0
    await stage.kill([stage.node])
    for _ in range(times):
        await stage.start(stage.node)
        began = await stage.until(lambda: has_opened(stage), OPENED_SECONDS_MAX)
        await asyncio.sleep(stage.random.uniform(0.0, RECOVERS_SECONDS))
        died += began and not await stage.is_ready(stage.node) and stage.running(stage.node)
        await stage.kill([stage.node])
    await stage.start(stage.node)
    return f"killed {died} of {times} times while it recovered" if died else ""


def has_opened(stage: Stage) -> bool:
    """True if the node has opened files of its data folder; before that, only the interpreter
    starts."""
    process = stage.process(stage.node)
    data = str(stage.folder(stage.node) / "data")
    with contextlib.suppress(psutil.Error):
        return process is not None and any(
            file.path.startswith(data) for file in process.open_files()
        )
    return False


async def pause(stage: Stage) -> str:
    """A long garbage collection, a stalled virtual machine: SIGSTOP and SIGCONT, or frozen with
    all it has by the kernel where cgroups can be written.
    """
    process = stage.process(stage.node)
    if process is None:
        return ""
    if freezer() is not None and stage.random.random() < 0.5:
        return await frozen(stage, process)
    folder = stage.folder(stage.node)
    processes.send(folder, signal.SIGSTOP)
    try:
        stopped = await stage.until(lambda: _is_stopped(process), EFFECT_SECONDS_MAX)
        await stage.hold()
    finally:
        processes.send(folder, signal.SIGCONT)
    return f"stopped for {stage.seconds:.2f} s" if stopped else ""


def freezer() -> Path | None:
    """The mounted cgroup folder in which groups can be frozen; None when there is none."""
    return FREEZER if os.access(FREEZER / "tasks", os.W_OK) else None


async def frozen(stage: Stage, process: psutil.Process) -> str:
    """Pause by the cgroup freezer: no signal is sent, and the process cannot notice."""
    group = remains.group_of(FREEZER, process.pid)
    state = group / "freezer.state"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
        state.write_text("FROZEN")
        froze = await stage.until(lambda: state.read_text().strip() == "FROZEN", EFFECT_SECONDS_MAX)
        await stage.hold()
    finally:
        state.write_text("THAWED")
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            (FREEZER / "cgroup.procs").write_text(str(process.pid))
        await stage.until(lambda: not (group / "cgroup.procs").read_text(), EFFECT_SECONDS_MAX)
        group.rmdir()
    return f"frozen by its cgroup for {stage.seconds:.2f} s" if froze else ""


def _is_stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False


async def cpu(stage: Stage) -> str:
    """5 % of a processor by quota where cgroups can be written, else stutter by signals."""
    process = stage.process(stage.node)
    if process is None:
        return ""
    root = cpu_cgroup()
    if root is None or stage.random.random() < 0.3:
        return await _stutter(stage)
    with _quota(root, process) as group:
        await asyncio.sleep(stage.seconds / 2)
        if not _throttled(group):  # an idle node lives on 5 %
            (group / "cpu.cfs_quota_us").write_text(str(CPU_QUOTA_MIN_US))
        await asyncio.sleep(stage.seconds / 2)
        throttled = _throttled(group)
    return f"throttled in {throttled} periods of 0.1 s" if throttled else ""


def cpu_cgroup() -> Path | None:
    """Returns the mounted cgroup folder in which this process may set quotas; None if there is
    none."""
    return next((path for path in CPU_CGROUPS if os.access(path / "tasks", os.W_OK)), None)


@contextlib.contextmanager
def _quota(root: Path, process: psutil.Process) -> Iterator[Path]:
    group = remains.group_of(root, process.pid)
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(CPU_QUOTA_US))
        (group / "cgroup.procs").write_text(str(process.pid))
        yield group
    finally:
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            (root / "cgroup.procs").write_text(str(process.pid))
        group.rmdir()


def _throttled(group: Path) -> int:
    found = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(found["nr_throttled"])


async def _stutter(stage: Stage) -> str:
    folder = stage.folder(stage.node)
    end = time.monotonic() + stage.seconds
    stops = 0
    try:
        while time.monotonic() < end:
            stops += processes.send(folder, signal.SIGSTOP)
            await asyncio.sleep(STUTTER_SECONDS)
            processes.send(folder, signal.SIGCONT)
            await asyncio.sleep(STUTTER_SECONDS)
    finally:
        processes.send(folder, signal.SIGCONT)
    return f"stopped {stops} times for {STUTTER_SECONDS * 1e3:.0f} ms" if stops else ""


async def file_limit(stage: Stage) -> str:
    """RLIMIT_FSIZE on the live process: writes behind it fail with EFBIG."""
    process = stage.process(stage.node)
    if process is None:
        return ""
    process.rlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, resource.RLIM_INFINITY))
    ended = await stage.until(lambda: not stage.running(stage.node), EFFECT_SECONDS_MAX)
    failed = ended or await stage.has_failed(stage.node)
    await stage.kill([stage.node])
    await stage.hold()
    await stage.start(stage.node)
    return f"{stage.node} stopped itself when a write failed" if failed else ""


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "stop": stop,
    "crash-loop": crash_loop,
    "pause": pause,
    "cpu": cpu,
    "file-limit": file_limit,
}
