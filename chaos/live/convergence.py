"""How long after the last heal all replicas were together again, under load and at its end.

    last fault ends ─► every node has committed what stood anywhere then    caught up: A seconds
                       … the load goes on to its end …
    load ends       ─► all are at one end                                   settled: B seconds

It took A + B. The clock begins when the last fault ended: the start of a node that it ended, its
recovery and an election are in A, and the load is in no one's favour.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from chaos.live.nodes import POLL_SECONDS, Nodes

SECONDS_MAX = 30.0  # of each; longer than is allowed: how late it was shall be said

Statuses = Mapping[str, dict[str, Any] | None]


async def caught_up(nodes: Nodes, now: Callable[[], float], healed: float) -> float | None:
    """Seconds from `healed` until all have what anybody had at the first look; None: too late."""
    end = time.monotonic() + SECONDS_MAX
    wanted = _highest(await nodes.statuses(), "last_index")
    while time.monotonic() < end:
        found = await nodes.statuses()
        if all(found.values()) and _lowest(found, "committed_index") >= wanted:
            return max(0.0, now() - healed)
        await asyncio.sleep(POLL_SECONDS)
    return None


async def settled(nodes: Nodes) -> tuple[float, int] | None:
    """(seconds until all are at one end, that end) when nobody sends; None: too late."""
    began = time.monotonic()
    try:
        last = await nodes.settled(SECONDS_MAX)
    except TimeoutError:
        return None
    return time.monotonic() - began, last


def _highest(found: Statuses, name: str) -> int:
    return max((int(status[name]) for status in found.values() if status), default=-1)


def _lowest(found: Statuses, name: str) -> int:
    return min((int(status[name]) for status in found.values() if status), default=-1)
