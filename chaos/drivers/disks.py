"""Kinds 10, 12–14: errors, no space, slow, hung and lying syncs, by the shim below the process."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

from chaos.drivers.hooks import ask
from chaos.drivers.power import FAULTS as POWER
from chaos.drivers.shim import Mode, Shim
from chaos.drivers.stage import Fault, Stage, last_words
from chaos.live import node_hooks

EFFECT_SECONDS_MAX = 5.0
LIE_SECONDS = 0.5
BALLAST = "ballast-of-chaos"
BALLAST_STEP_BYTES = 64 << 20
BLOCK_BYTES = 4096


def _shim(stage: Stage, node: str = "") -> Shim:
    assert stage.shims is not None, "only drawn where the shim can be built"
    return stage.shims[node or stage.node]


async def _hit(stage: Stage, said: str, **modes: int) -> str:
    """Modes for the planned time, and until something was hit; the node is started again after."""
    shim = _shim(stage)
    before = sum(shim.hits())
    with shim.faulty(**modes):
        await stage.until(lambda: sum(shim.hits()) > before, EFFECT_SECONDS_MAX)
        await stage.hold()
        hits = sum(shim.hits()) - before
    ended = not stage.running(stage.node)
    return f"{hits} calls {said}{'; it stopped itself' if ended else ''}" if hits else ""


async def disk_full(stage: Stage) -> str:
    """By the shim; or really, where the node has a disk of its own."""
    if stage.disks is not None and stage.random.random() < 0.5:
        return await ballast(stage)
    return await _hit(stage, "failed with ENOSPC", write=Mode.FULL)


async def ballast(stage: Stage) -> str:
    """A file takes all space of the node's disk until the end; the node says that it noticed."""
    path = stage.folder(stage.node) / "data" / BALLAST
    try:
        size = await asyncio.to_thread(_fill, path)
        noticed = await _is_short_of_space(stage)
        await stage.hold()
    finally:
        path.unlink(missing_ok=True)
    return noticed and f"ballast of {size >> 20} MiB left no space; {noticed}"


def _fill(path: Path) -> int:
    """All the space that is free, to the last block; bytes it took."""
    with path.open("wb") as file:
        at, step = 0, BALLAST_STEP_BYTES
        while step >= BLOCK_BYTES:
            try:
                os.posix_fallocate(file.fileno(), at, step)
                at += step
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
    return at


async def _is_short_of_space(stage: Stage) -> str:
    """Returns the node's report about its disk once it has to write a new file, or its last words
    if it stopped."""
    end = time.monotonic() + EFFECT_SECONDS_MAX
    while time.monotonic() < end:
        await ask(stage, stage.node, sweep=True)
        node_hooks.forget(stage.folder(stage.node))
        if not stage.running(stage.node):
            return f"it stopped itself: {last_words(stage)}"
        status = (await stage.arena.statuses()).get(stage.node)
        if status and (status["failed"] or status["disk"] in ("low", "full")):
            return f"its disk is {status['disk']}: {status['failed'] or status['disk_detail']}"
    return ""


async def io_error(stage: Stage) -> str:
    """Writes, syncs or reads fail with EIO, or writes take half of their bytes."""
    what = stage.random.choice(("write", "sync", "read", "short"))
    if what == "read":
        return await _read_error(stage)
    if what == "short":
        return await _hit(stage, "took half of their bytes (write)", write=Mode.SHORT)
    return await _hit(stage, f"failed with EIO ({what})", **{what: Mode.FAIL})


async def _read_error(stage: Stage) -> str:
    """Reads go through the mapping in steady state; a start reads, so the error meets one."""
    shim = _shim(stage)
    before = shim.hits()[2]
    await stage.kill([stage.node])
    with shim.faulty(read=Mode.FAIL):
        await stage.start(stage.node)
        await stage.until(lambda: shim.hits()[2] > before, EFFECT_SECONDS_MAX)
        refused = await stage.until(lambda: not stage.running(stage.node), EFFECT_SECONDS_MAX)
    await stage.kill([stage.node])
    hits = shim.hits()[2] - before
    said = "it refused to start" if refused else "it went on"
    return f"{hits} reads failed with EIO at the start; {said}" if hits else ""


async def disk_slow(stage: Stage) -> str:
    """Slow syncs, or syncs that do not return before the end."""
    if stage.random.random() < 0.5:
        return await _hit(stage, "hung until the end (sync)", sync=Mode.HANG)
    delay = stage.random.choice((20, 200))
    return await _hit(stage, f"took {delay} ms more (sync)", sync=Mode.SLOW, delay_ms=delay)


async def fsync_lies(stage: Stage) -> str:
    """A negative control: syncs have no effect on any node, then all nodes lose their power."""
    shims = [_shim(stage, node) for node in stage.nodes]
    before = sum(shim.hits()[1] for shim in shims)  # of earlier faults
    for shim in shims:
        shim.set(sync=Mode.LIE)
    try:
        await asyncio.sleep(LIE_SECONDS)
        lies = sum(shim.hits()[1] for shim in shims) - before
        told = await POWER["power-all"](stage)
    finally:
        for shim in shims:
            shim.set()
    return f"{lies} syncs did nothing; {told}" if lies else ""


FAULTS: dict[str, Fault] = {
    "disk-full": disk_full,
    "io-error": io_error,
    "disk-slow": disk_slow,
    "fsync-lies": fsync_lies,
}
