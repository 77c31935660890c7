"""A local cluster for asyncio: the launcher's blocking calls run in threads.

`async with Nodes(cluster)` starts it and stops it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

from chaos.live.interrupted import in_thread
from cluster.local.launcher import LocalCluster

POLL_SECONDS = 0.02


class Nodes:
    """The nodes of a local cluster: break them, start them, ask them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    async def __aenter__(self) -> Self:
        try:
            await in_thread(self.cluster.up)
        except BaseException:
            await asyncio.to_thread(self.cluster.down)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.cluster.down)

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        """Each broker's status; None for one that does not answer."""
        return await asyncio.to_thread(self.cluster.statuses)

    async def leader(self, *, other_than: str = "", seconds_max: float = 10.0) -> str:
        """The node that leads; waits for one. Raises TimeoutError when there is none in time."""
        async with asyncio.timeout(seconds_max):
            while True:  # bounded by the time-out
                found = await asyncio.to_thread(self.cluster.leader)
                if found and found != other_than:
                    return found
                await asyncio.sleep(POLL_SECONDS)

    async def kill(self, node: str) -> None:
        """SIGKILL, and wait until it is gone."""
        await asyncio.to_thread(self.cluster.kill, node)

    async def kill_all(self) -> None:
        """SIGKILL every broker at once."""
        await asyncio.to_thread(self.cluster.kill_all)

    async def restart(self, node: str) -> None:
        """Start a node that ended; does not wait until it is ready."""
        await asyncio.to_thread(self.cluster.start, node)

    async def join(self, node: str) -> None:
        """Starts a node with a new folder in place of its lost one, so that the running group takes
        it in as a joining member."""
        await asyncio.to_thread(self.cluster.start, node, joins=True)

    async def ready(self) -> float:
        """Wait until every node is ready; seconds it took. Raises LauncherError."""
        return await asyncio.to_thread(self.cluster.wait_ready)

    async def settled(self, seconds_max: float = 20.0) -> int:
        """Wait until every node runs, agrees on the leader, and has committed all it has.

        Returns the last entry, which all of them have. Raises TimeoutError.
        """
        async with asyncio.timeout(seconds_max):
            while True:  # bounded by the time-out
                found = list((await self.statuses()).values())
                if all(found) and _agree([status for status in found if status]):
                    return max(int(status["last_index"]) for status in found if status)
                await asyncio.sleep(POLL_SECONDS)


def _agree(statuses: Sequence[Mapping[str, Any]]) -> bool:
    ends = {(s["leader"], s["last_index"], s["committed_index"]) for s in statuses}
    return len(ends) == 1 and all(s["last_index"] == s["committed_index"] for s in statuses)
