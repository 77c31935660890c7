"""Kind 35: a node has no file descriptor left, or hardly any memory; later it has both again.

Memory is that of a control group: what the node has stays, and each page that it takes meanwhile
counts. At the limit the kernel writes back and takes pages of its files away; where that is not
enough, it kills the node. Needs a cgroup v1 that can be written; else descriptors are squeezed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from pathlib import Path

import psutil

from chaos.drivers import remains
from chaos.drivers.stage import Fault, Stage
from cluster.local import admin

LOWEST_DESCRIPTOR = 3
MEMORY = Path("/sys/fs/cgroup/memory")
MEMORY_BYTES = 512 << 10
NO_LIMIT = "-1"
EFFECT_SECONDS_MAX = 5.0


async def squeeze(stage: Stage) -> str:
    """One of the two."""
    process = stage.process(stage.node)
    if process is None:
        return ""
    root = memory_cgroup()
    if root is not None and stage.random.random() < 0.5:
        return await _of_memory(stage, process, root)
    return await _of_descriptors(stage, process)


async def _of_descriptors(stage: Stage, process: psutil.Process) -> str:
    """Connections are not taken, files cannot be opened."""
    before = process.rlimit(resource.RLIMIT_NOFILE)
    # The limit is on the number of a new descriptor, not on how many there are.
    process.rlimit(resource.RLIMIT_NOFILE, (LOWEST_DESCRIPTOR, before[1]))
    try:
        address = stage.arena.cluster.profile.member(stage.node).admin
        turned_away = await asyncio.to_thread(_is_turned_away, address)
        await stage.hold()
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.rlimit(resource.RLIMIT_NOFILE, before)
    return "a new connection was not served" if turned_away else ""


def _is_turned_away(address: str) -> bool:
    try:
        admin.get(address, "/healthz")
    except OSError:
        return True
    return False


def memory_cgroup() -> Path | None:
    """The mounted cgroup folder in which memory can be limited; None when there is none."""
    return MEMORY if os.access(MEMORY / "tasks", os.W_OK) else None


async def _of_memory(stage: Stage, process: psutil.Process, root: Path) -> str:
    group = remains.group_of(root, process.pid)
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
        (group / "cgroup.procs").write_text(str(process.pid))
        await stage.hold()
        await stage.until(lambda: _met(group) > 0, EFFECT_SECONDS_MAX)
        met, killed = _met(group), not process.is_running()
    finally:
        (group / "memory.limit_in_bytes").write_text(NO_LIMIT)
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            (root / "cgroup.procs").write_text(str(process.pid))
        await stage.until(lambda: not (group / "cgroup.procs").read_text(), EFFECT_SECONDS_MAX)
        group.rmdir()
    said = f"{met} times {MEMORY_BYTES >> 10} KiB of new memory were not enough"
    return said + ("; the kernel killed it" if killed else "") if met else ""


def _met(group: Path) -> int:
    """How often the limit stood in the way."""
    return int((group / "memory.failcnt").read_text())


FAULTS: dict[str, Fault] = {"squeeze": squeeze}
