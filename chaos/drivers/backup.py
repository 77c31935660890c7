"""Kind 17, second half: a node's folder is put back from a backup (runtime/generations.py).

    kill ─► copy the folder ─► start, acknowledge more ─► kill ─► the copy in its place ─► start:
    it must stop, since its peers met a later generation ─► kill ─► the newest folder back ─► start

Started on the copy, the node would have forgotten votes and entries that it promised.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path

from chaos.drivers.file_damage import clear, forgot
from chaos.drivers.stage import POLL_SECONDS, READY_SECONDS_MAX, NotUpAgain, Stage
from chaos.drivers.steps import keeps_a_majority
from cluster.local import processes

OLD_SECONDS = 2.0  # the copy gets so old; a start alone makes the folder a later generation
#: In the node's own log and status: why it stopped.
OLDER = "put back from a backup"


@keeps_a_majority
async def old_copy_returns(stage: Stage) -> str:
    """As a choreography: any node, the leader too."""
    node = stage.random.choice(list(stage.nodes))
    return await put_back(replace(stage, nodes=[node], seconds=OLD_SECONDS))


async def put_back(stage: Stage) -> str:
    """The node runs on while a copy of its folder gets old; then it is started on the copy."""
    node, data = stage.node, stage.folder(stage.node) / "data"
    copy, newest = (stage.folder(node) / name for name in ("older-copy", "newest-copy"))
    await stage.kill([node])
    try:
        await _copy(data, copy)
        await stage.start(node)
        await stage.up_again(node)
        await stage.hold()
        await stage.kill([node])
        await _copy(data, newest)
        try:
            await _replace(data, copy)
            await stage.start(node)
            said = await _refused(stage)
            if not said and await stage.is_ready(node):
                stage.notes |= forgot(f"on a folder {stage.seconds:.1f} s older it went on")
        finally:
            await stage.kill([node])
            await _replace(data, newest)
    finally:
        for folder in (copy, newest):
            shutil.rmtree(folder, ignore_errors=True)
    await stage.start(node)
    return f"on a folder {stage.seconds:.1f} s older it stopped: {said}" if said else ""


async def _refused(stage: Stage) -> str:
    """The line that the node logged when it stopped; "" if it still runs. Raises NotUpAgain."""
    end = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < end:
        log = processes.log_tail(stage.folder(stage.node))
        lines = [line for line in log.splitlines() if OLDER in line]
        if lines and (not stage.running(stage.node) or await stage.has_failed(stage.node)):
            return lines[-1][:200]
        await asyncio.sleep(POLL_SECONDS)
    if stage.running(stage.node):
        return ""
    raise NotUpAgain(stage.node, "it ended on an older copy and does not say why")


async def _copy(source: Path, target: Path) -> None:
    """With its holes: files are made at their full size and used from the front."""
    shutil.rmtree(target, ignore_errors=True)
    await _run("cp", "--archive", "--sparse=always", str(source), str(target))


async def _replace(data: Path, copy: Path) -> None:
    """The content only: the folder may be a mount point. On the disk: a power cut may be next."""
    await asyncio.to_thread(clear, data)
    await _run("cp", "--archive", "--sparse=always", f"{copy}/.", str(data))
    await _run("sync", "--file-system", str(data))


async def _run(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    if await process.wait():
        raise OSError(f"{' '.join(words)} ended with {process.returncode}")
