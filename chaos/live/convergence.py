"""How long after the last heal all replicas were together again, under load and at its end.

    last fault ends ─► every node has committed what stood anywhere then    caught up: A seconds
                       … the load goes on to its end …
    load ends       ─► all are at one end                                   settled: B seconds

    nothing is sent ─► every node has looked at its whole log, and repaired it    looked over

It took A + B. The clock begins when the last fault ended: the start of a node that it ended, its
recovery and an election are in A, and the load is in no one's favour.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chaos.live import node_hooks
from chaos.live.nodes import POLL_SECONDS, Nodes

if TYPE_CHECKING:
    from chaos.live.arena import Arena

SECONDS_MAX = 30.0  # of each; longer than is allowed: how late it was shall be said

Statuses = Mapping[str, dict[str, Any] | None]


async def caught_up(nodes: Nodes, now: Callable[[], float], healed: float) -> float | None:
    """Waits until every node has committed the highest index that any node had at the first look.
    Returns the seconds since `healed`, or None if it took longer than SECONDS_MAX."""
    end = time.monotonic() + SECONDS_MAX
    wanted = _highest(await nodes.statuses(), "last_index")
    while time.monotonic() < end:
        found = await nodes.statuses()
        if all(found.values()) and _lowest(found, "committed_index") >= wanted:
            return max(0.0, now() - healed)
        await asyncio.sleep(POLL_SECONDS)
    return None


async def settled(nodes: Nodes) -> tuple[float, int] | None:
    """Waits, after the load has ended, until all nodes have the same last index. Returns (seconds
    it took, that index), or None if it took longer than SECONDS_MAX."""
    began = time.monotonic()
    try:
        last = await nodes.settled(SECONDS_MAX)
    except TimeoutError:
        return None
    return time.monotonic() - began, last


async def looked_over(arena: Arena) -> bool:
    """Let every node scrub its log once, before its bytes are compared; False: not in time.

    Slots of the index are a cache that is synced seldom: a power cut may take back that one was
    repaired, and rot stands there again until somebody looks. What a look repairs is no difference.
    """
    before = {node: said["passes"] for node, said in (await _repairs(arena)).items()}
    for node in arena.cluster.brokers:
        node_hooks.ask(arena.cluster.folder(node), scrub=True)
    end = time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < end:
            found = await _repairs(arena)
            whole = [node for node, said in found.items() if not said["damaged"]]
            if len(whole) == len(arena.cluster.brokers) and all(
                found[node]["passes"] > before.get(node, -1) for node in whole
            ):
                return True
            await asyncio.sleep(POLL_SECONDS)
    finally:
        for node in arena.cluster.brokers:
            node_hooks.forget(arena.cluster.folder(node))
    return False


async def _repairs(arena: Arena) -> dict[str, Mapping[str, Any]]:
    """Returns the repair status of each node that answers, by node name."""
    return {node: said["repair"] for node, said in (await arena.statuses()).items() if said}


def _highest(found: Statuses, name: str) -> int:
    return max((int(status[name]) for status in found.values() if status), default=-1)


def _lowest(found: Statuses, name: str) -> int:
    return min((int(status[name]) for status in found.values() if status), default=-1)
