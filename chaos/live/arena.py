"""A local cluster in which every link runs through a proxy of this package, while `async with`
lasts.

    n0 ─peer───► [n0→n1] ─► n1:20911        Raft: appends, votes, heartbeats
    n0 ─forward► [n0→n1] ─► n1:10911        client requests passed on to the leader
    client ────► [client→n1] ─► n1:10911    what the routes advertise

So a node can be cut off from all others, or from some, or in one direction, without any privilege.
Name servers are reached directly: a stale leader goes on telling them that it leads, and must not
be believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from chaos.faults import Network
from chaos.live.link_proxy import LinkMesh, LinkProxy
from chaos.live.namespaces import Namespaces
from chaos.live.nodes import Nodes
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.profile import BROKER, Member

CLIENT = "client"
PEER_PROXY_PORT = 21_000
FORWARD_PROXY_PORT = 22_000
CLIENT_PROXY_PORT = 23_000


def proxied(members: Sequence[Member]) -> tuple[tuple[Member, ...], LinkMesh]:
    """Returns the members, set to dial each other through proxies, and those proxies, not open."""
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


class Arena(Nodes):
    """A running cluster and its links.

    Args:
        root: folder of the cluster; must not hold one.
        hosts: the name server's and the nodes' addresses; the usual ones by default.
        settings: "section.key" → text for every node.
    """

    #: How the nodes reach each other.
    through: Network = Network.PROXIES
    #: The nodes' own networks, when they have some (namespace_arena.py); there are no proxies then.
    network: Namespaces | None = None

    def __init__(
        self,
        root: Path,
        *,
        nodes: int = 3,
        hosts: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        members, self.mesh = proxied(plan.plan(nodes, hosts))
        super().__init__(LocalCluster.create(root, members, settings, tied=True))

    async def __aenter__(self) -> Self:
        await self.mesh.__aenter__()
        try:
            await super().__aenter__()
        except BaseException:
            await self.mesh.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await super().__aexit__()
        finally:
            await self.mesh.__aexit__()
