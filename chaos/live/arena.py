"""A local cluster whose every link runs through a proxy of ours, for as long as `async with` lasts.

    n0 ─peer───► [n0→n1] ─► n1:20911        Raft: appends, votes, heartbeats
    n0 ─forward► [n0→n1] ─► n1:10911        client requests passed on to the leader
    client ────► [client→n1] ─► n1:10911    what the routes advertise

So a node can be cut off from everybody, or from some, or in one direction, without any privilege.
Name servers are reached directly: a stale leader goes on telling them that it leads, and must not
be believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from chaos.live.link_proxy import LinkMesh, LinkProxy
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.profile import BROKER, Member

CLIENT = "client"
PEER_PROXY_PORT = 21_000
FORWARD_PROXY_PORT = 22_000
CLIENT_PROXY_PORT = 23_000


def proxied(members: Sequence[Member]) -> tuple[tuple[Member, ...], LinkMesh]:
    """The same members dialling each other through proxies, and those proxies, not yet open."""
    brokers = [member for member in members if member.kind == BROKER]
    links: dict[str, LinkProxy] = {}

    def link(kind: str, source: str, host: str, port: int, target: Member, to: str) -> str:
        proxy = LinkProxy(source, target.name, f"{host}:{port}", to, source_host=host)
        links[f"{kind} {source}>{target.name}"] = proxy
        return proxy.listen

    changed = []
    for member in members:
        if member.kind != BROKER:
            changed.append(member)
            continue
        others = [(n, other) for n, other in enumerate(brokers) if other is not member]
        host, name = member.host, member.name
        changed.append(
            replace(
                member,
                dialled={
                    o.name: link("peer", name, host, PEER_PROXY_PORT + n, o, o.peer)
                    for n, o in others
                },
                forwards={
                    o.name: link("forward", name, host, FORWARD_PROXY_PORT + n, o, o.client)
                    for n, o in others
                },
                advertised=link("client", CLIENT, host, CLIENT_PROXY_PORT, member, member.client),
            )
        )
    return tuple(changed), LinkMesh(links)


class Arena:
    """A running cluster and its links. Blocking calls of the launcher run in threads.

    Args:
        root: folder of the cluster; must not hold one.
        hosts: the name server's and the nodes' addresses; the usual ones by default.
        settings: "section.key" → text for every node.
    """

    def __init__(
        self,
        root: Path,
        *,
        nodes: int = 3,
        hosts: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        members, self.mesh = proxied(plan.plan(nodes, hosts))
        self.cluster = LocalCluster.create(root, members, settings, tied=True)

    async def __aenter__(self) -> Self:
        await self.mesh.__aenter__()
        try:
            await asyncio.to_thread(self.cluster.up)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.to_thread(self.cluster.down)
        finally:
            await self.mesh.__aexit__()

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        return await asyncio.to_thread(self.cluster.statuses)

    async def leader(self, *, other_than: str = "", seconds_max: float = 10.0) -> str:
        """The node that leads; waits for one. Raises TimeoutError when there is none in time."""
        async with asyncio.timeout(seconds_max):
            while True:  # bounded by the time-out
                found = await asyncio.to_thread(self.cluster.leader)
                if found and found != other_than:
                    return found
                await asyncio.sleep(0.02)

    async def kill(self, node: str) -> None:
        await asyncio.to_thread(self.cluster.kill, node)

    async def restart(self, node: str) -> None:
        await asyncio.to_thread(self.cluster.start, node)

    async def settled(self, seconds_max: float = 20.0) -> None:
        """Wait until every node runs, agrees on the leader, and has committed all it has."""
        async with asyncio.timeout(seconds_max):
            while True:  # bounded by the time-out
                found = list((await self.statuses()).values())
                if all(found) and _agree([status for status in found if status]):
                    return
                await asyncio.sleep(0.05)


def _agree(statuses: Sequence[Mapping[str, Any]]) -> bool:
    ends = {(s["leader"], s["last_index"], s["committed_index"]) for s in statuses}
    return len(ends) == 1 and all(s["last_index"] == s["committed_index"] for s in statuses)
