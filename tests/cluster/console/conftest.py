"""A broker with its console in this process, a client of the cluster, and one of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import cluster
from cluster.client import Client, ClientConfig
from cluster.local.node_admin import NodeAdmin
from cluster.nameserver.server import NameServer
from cluster.settings.node import AdminConfig, read_node
from tests.cluster.broker.harness import Brokers, heard_mistakes
from tests.waiting import eventually, limit

from .shapes import check

QUICK = ClientConfig(stall_timeout=0.1, request_timeout=limit(10), replica_fallback=0.3)
ADMIN_PORT = 8080
TOKENS = {
    "viewer": "the token of a viewer",
    "operator": "the token of an operator",
    "admin": "the token of an admin",
}

SETTINGS = read_node(
    None,
    {},
    ("raft.node_id=n0", "raft.secret=nobody may read it", "admin.ready_lag_max=77"),
).shown()


@dataclass
class World:
    """One node's console; `mq` is a client of the same cluster, `address` its name server's."""

    brokers: Brokers
    mq: Client
    http: aiohttp.ClientSession
    base: str
    address: str

    async def call(
        self, method: str, path: str, *, schema: str | None = None, **rest: Any
    ) -> tuple[int, Any]:
        """Status and JSON; an answer has the shape that the document promises."""
        async with self.http.request(method, self.base + path, **rest) as answer:
            found = await answer.json()
        check(found, schema if answer.status == 200 else "Error")
        return answer.status, found

    async def get(self, path: str, schema: str | None = None, **params: Any) -> Any:
        """The JSON of a request that succeeds."""
        status, found = await self.call("GET", path, schema=schema, params=params)
        assert status == 200, found
        return found


MakeWorld = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def make_world(tmp_path: Path, new_address: Callable[[], str]) -> MakeWorld:
    """`async with make_world(tokens=True, nodes=3, …settings) as world`."""

    @asynccontextmanager
    async def make(
        *, tokens: bool = False, nodes: int = 1, chaos_runs: Path | None = None, **settings: Any
    ) -> AsyncIterator[World]:
        account = tmp_path / "account"
        account.write_text("accessKey: console\nsecretKey: of-console\n")
        own = {"token": TOKENS["admin"], "operator_token": TOKENS["operator"]}
        own |= {"viewer_token": TOKENS["viewer"]}
        hosts = [new_address() for _ in range(nodes)]
        admin = AdminConfig(
            listen=(hosts[0], ADMIN_PORT),
            chaos_runs=chaos_runs,
            **({**own, "account_file": account} if tokens else {}),
        )
        admin.validate()
        async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
            brokers = Brokers(tmp_path, hosts, {"name_servers": (server.address,), **settings})
            with heard_mistakes(brokers.mistakes):
                await brokers.start()
                node = brokers.nodes[0]
                assert node is not None
                node_admin = NodeAdmin(node, admin, SETTINGS)
                try:
                    await node_admin.start()
                    async with (
                        cluster.connect(server.address, QUICK) as mq,
                        aiohttp.ClientSession() as http,
                    ):
                        await until_registered(mq, nodes)
                        base = f"http://{hosts[0]}:{ADMIN_PORT}"
                        yield World(brokers, mq, http, base, server.address)
                finally:
                    await node_admin.close()
                    await brokers.close()
            assert brokers.mistakes == []

    return make


async def until_registered(mq: Client, nodes: int) -> None:
    """Every node has told the name server of itself, and one leads."""

    async def known() -> bool:
        found = await mq.routes.cluster()
        return any(
            len(set(row.addresses.values())) == nodes and row.leader for row in found.values()
        )

    await eventually(known, f"{nodes} registered nodes")
