"""Kinds 10, 12–14: errors, no space, slow, hung and lying syncs, by the shim below the process."""

from __future__ import annotations

import asyncio

from chaos.drivers.power import FAULTS as POWER
from chaos.drivers.shim import Mode, Shim
from chaos.drivers.stage import Fault, Stage

EFFECT_SECONDS_MAX = 5.0
LIE_SECONDS = 0.5


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
    return await _hit(stage, "failed with ENOSPC", write=Mode.FULL)


async def io_error(stage: Stage) -> str:
    """EIO on writes, syncs or reads, or writes that stop half-way and then fail."""
    what = stage.random.choice(("write", "sync", "read"))
    if what == "read":
        return await _read_error(stage)
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
    """A negative control: syncs do nothing on any node, then all lose their power."""
    shims = [_shim(stage, node) for node in stage.nodes]
    for shim in shims:
        shim.set(sync=Mode.LIE)
    try:
        await asyncio.sleep(LIE_SECONDS)
        lies = sum(shim.hits()[1] for shim in shims)
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
