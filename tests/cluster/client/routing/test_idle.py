"""A client that was silent for long: its connections ended, and nobody looked at them meanwhile.

So it goes with workers of a pipeline, whose loop runs only while they have work.
"""

from __future__ import annotations

import asyncio

import pytest

import cluster

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time


async def test_a_name_server_that_closed_the_connection_is_asked_on_a_new_one(
    group: StubGroup,
) -> None:
    async with cluster.connect(group.nameserver.address) as mq:
        await mq.routes.refresh("T")
        for connection in list(group.nameserver.connections):
            connection.close()
        assert (await mq.routes.refresh("T")).read_queues("T"), "it was never noticed"


async def test_one_that_does_not_answer_is_asked_once(group: StubGroup) -> None:
    asked = 0

    class Silent(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            nonlocal asked
            asked += 1

    server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0)
    silent = "{}:{}".format(*server.sockets[0].getsockname())
    settings = cluster.ClientConfig(request_timeout=0.2, stall_timeout=0.1)
    both = f"{silent};{group.nameserver.address}"
    async with server, cluster.connect(both, config=settings) as mq:
        await mq.routes.refresh("T")
        assert asked == 1
