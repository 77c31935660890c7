"""A connection that is accepted in the very moment its server stops is closed, too.

The loop accepts in one turn, makes the protocol in the next and connects them in a third. A server
that stops between two of these turns has no list in which such a connection stands; it stayed open,
without an owner, until the process ended.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from cluster.broker.admin.admin_http import AdminServer
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.net.server import ClientServer, bind
from cluster.nameserver.server import NameServer
from dledger import RaftConfig
from dledger.core.types import NodeId
from dledger.membership.handshake import Member
from dledger.runtime.clock import seeded_jitter
from dledger.runtime.owned import Owned
from dledger.runtime.transport import Listener, Transport
from tests.waiting import within

PORT = 20911
#: A turn of the loop each; the connection is accepted in the first of them.
TURNS = range(8)
Stop = Callable[[], Awaitable[object]]


class _Source:
    registry = CollectorRegistry()


async def _peers(host: str, folder: Path) -> Stop:
    config = RaftConfig("n0", {"n0": (host, PORT)}, folder)
    transport = Transport(
        config,
        Member("cluster", "default", NodeId("n0"), 1),
        Listener(lambda _: None, lambda *_: None, Owned(_fail)),
        seeded_jitter(1),
        lambda *_: None,
    )
    await transport.start()
    return transport.stop


async def _clients(host: str, folder: Path) -> Stop:
    server = ClientServer(
        LiveSettings(BrokerConfig("n0", folder)),
        cast(Any, None),
        Owned(_fail),
        left=lambda _: None,
    )
    await server.start(bind(host, PORT), server.protocol())
    return server.close


async def _name_server(host: str, folder: Path) -> Stop:
    server = NameServer(host, PORT)
    await server.start()
    return server.close


async def _admin(host: str, folder: Path) -> Stop:
    server = AdminServer(cast(Any, _Source()), host, PORT, token=None, owned=Owned(_fail))
    await server.start()
    return server.close


def _fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("start", [_peers, _clients, _name_server, _admin])
async def test_a_connection_of_the_last_moment_is_closed(
    start: Callable[[str, Path], Awaitable[Stop]],
    turns: int,
    new_address: Callable[[], str],
    tmp_path: Path,
) -> None:
    host = new_address()
    stop = await start(host, tmp_path)
    with socket.create_connection((host, PORT)) as client:
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await stop()
        end = asyncio.create_task(_end(client))
        await within(end, "the end of the connection")


async def _end(client: socket.socket) -> None:
    try:
        while await asyncio.get_running_loop().sock_recv(client, 1024):
            pass  # a hello that was sent before
    except ConnectionError:
        pass  # the listener closed before it was accepted
