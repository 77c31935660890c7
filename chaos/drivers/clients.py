"""Kind 34: a client vanishes without a goodbye in the middle of what it does; another one comes."""

from __future__ import annotations

import asyncio

from chaos.drivers.stage import Fault, Stage

BETWEEN_SECONDS = 0.3


async def client(stage: Stage) -> str:
    """One after the other, for as long as planned."""
    assert stage.clients is not None, "a run has clients"
    gone = []
    for _ in range(max(1, int(stage.seconds / BETWEEN_SECONDS))):
        gone.append(stage.clients.vanish(stage.random.getrandbits(16)))
        await asyncio.sleep(BETWEEN_SECONDS)
    return f"ended {', '.join(gone)}"


FAULTS: dict[str, Fault] = {"client": client}
