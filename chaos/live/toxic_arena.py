"""A local cluster in which every link runs through a toxiproxy server (toxic_links.py)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from chaos.faults import Network
from chaos.live.arena import Arena, proxied
from chaos.live.link_proxy import LinkMesh
from chaos.live.nodes import Nodes
from chaos.live.toxic_links import ToxicLinks, serving
from cluster.local import plan
from cluster.local.launcher import LocalCluster


class ToxicArena(Arena):
    """A running cluster, its links and their server. `own`: ours, also where the official one is.

    Other arguments as `Arena`'s. Raises OSError when no server starts, ToxiproxyError.
    """

    through = Network.TOXIPROXY

    def __init__(
        self,
        root: Path,
        *,
        nodes: int = 3,
        hosts: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        own: bool = False,
    ) -> None:
        members, mesh = proxied(plan.plan(nodes, hosts))
        self.mesh = LinkMesh({})  # nothing runs through proxies of this process
        self.toxic = ToxicLinks(mesh.links)
        self._own = own
        self._stack = contextlib.ExitStack()
        Nodes.__init__(self, LocalCluster.create(root, members, settings, tied=True))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._open)
        try:
            return await super().__aenter__()
        except BaseException:
            await asyncio.to_thread(self._stack.close)
            raise

    async def __aexit__(self, *_: object) -> None:
        try:
            await super().__aexit__()
        finally:
            await asyncio.to_thread(self._stack.close)

    def _open(self) -> None:
        with contextlib.ExitStack() as stack:
            url, server = stack.enter_context(serving(own_one=self._own))
            stack.callback(self.toxic.close)
            self.toxic.open(url, server)
            self._stack = stack.pop_all()
