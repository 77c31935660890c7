"""A local cluster in which each node has its own network namespace and nodes dial each other
directly.

As `chaos.live.arena.Arena`, without proxies: what faults do to links is done by the kernel
(chaos/drivers/netfilter.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from chaos.faults import Network
from chaos.live.arena import Arena
from chaos.live.interrupted import in_thread
from chaos.live.link_proxy import LinkMesh
from chaos.live.namespaces import Namespaces
from chaos.live.nodes import Nodes
from cluster.local import plan
from cluster.local.launcher import LocalCluster


class _Cluster(LocalCluster):
    """A local cluster that skips the port check for brokers: their ports belong to their own
    namespaces, so no other process can hold them."""

    def check_ports(self, names: Sequence[str]) -> None:
        super().check_ports([name for name in names if name not in self.brokers])


class NamespaceArena(Arena):
    """A running cluster in namespaces. `settings`: "section.key" → text for every node.

    Raises OSError when there is no free block of addresses.
    """

    through = Network.NAMESPACES

    def __init__(self, root: Path, *, nodes: int = 3, settings: Mapping[str, str] | None = None):
        self.mesh = LinkMesh({})
        self.network = self._namespaces = Namespaces([f"n{number}" for number in range(nodes)])
        members = plan.plan(nodes, self._namespaces.hosts)
        Nodes.__init__(self, _Cluster.create(root, members, settings, tied=True))

    async def __aenter__(self) -> Self:
        try:
            await in_thread(self._namespaces.open)
            return await super().__aenter__()
        except BaseException:
            await asyncio.to_thread(self._namespaces.close)
            raise

    async def __aexit__(self, *_: object) -> None:
        try:
            await super().__aexit__()
        finally:
            await asyncio.to_thread(self._namespaces.close)
