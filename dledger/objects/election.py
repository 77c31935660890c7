"""One leader among the processes of a service: a lock that its holder renews.

campaign ─► waits ─► leads(token) … renewed every third of the lease … resign, or lost
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from dledger.config import RaftConfig
from dledger.errors import DledgerError
from dledger.objects.lock import Grant, ReplicatedLock
from dledger.runtime.lifetime import Lifetime

#: A lease is renewed so often while it lasts.
RENEWALS = 3


class Leadership:
    """While it is held. `token` rises with each leader: give it along with each write."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        #: Set when another may lead.
        self.lost = asyncio.Event()

    @property
    def token(self) -> int:
        """Larger than that of every leader before."""
        return self._grant.token

    @property
    def is_held(self) -> bool:
        """Certainly still held, as far as this machine's clock can tell."""
        return not self.lost.is_set() and asyncio.get_running_loop().time() < self._grant.ends_at

    async def wait_until_lost(self) -> None:
        """Until another may lead."""
        await self.lost.wait()


class LeaderElection(Lifetime):
    """Elections by name among all processes that run a node of this group.

    `node`: for its status, its members and reads of one's own.
    """

    def __init__(self, config: RaftConfig, *, lease: float = 5.0, **options: Any) -> None:
        """`lease`: seconds until another leads when this process has died or is cut off."""
        self._locks = ReplicatedLock(config, **options)
        self.node = self._locks.node
        self._lease = lease

    async def start(self) -> None:
        """As `ReplicatedNode.start`."""
        await self._locks.start()

    async def close(self) -> None:
        """As `ReplicatedNode.close`."""
        await self._locks.close()

    @contextlib.asynccontextmanager
    async def campaign(self, name: str, candidate: str = "") -> AsyncIterator[Leadership]:
        """Wait to be the leader of `name`, and lead inside the block; look at `lost` there.

        `candidate`: what others see as the leader's name. Raises as `ReplicatedLock.acquire`.
        """
        leadership = Leadership(await self._locks.acquire(name, lease=self._lease, owner=candidate))
        renewing = self.node.log.owned.create_task(self._renew(leadership))
        try:
            yield leadership
        finally:
            renewing.cancel()
            leadership.lost.set()
            with contextlib.suppress(DledgerError):  # then its lease runs out
                await self._locks.release(leadership._grant)

    async def leader(self, name: str) -> str | None:
        """The name of the one that was elected last. Raises as `ReplicatedNode.read`."""
        held = await self._locks.holder(name)
        return None if held is None else held.owner

    async def _renew(self, leadership: Leadership) -> None:
        loop = asyncio.get_running_loop()
        while True:  # until it is lost, or the block ends
            await asyncio.sleep(self._lease / RENEWALS)
            try:
                left = max(leadership._grant.ends_at - loop.time(), 0.0)
                async with asyncio.timeout(left):
                    renewed = await self._locks.renew(leadership._grant, lease=self._lease)
            except (DledgerError, TimeoutError):
                renewed = None
                if leadership._grant.ends_at > loop.time():
                    continue
            if renewed is None:
                leadership.lost.set()
                return
            leadership._grant = renewed
