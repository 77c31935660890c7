"""A stub group with a name server, for the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cluster.nameserver.server import NameServer

from .stub_cluster import StubGroup


@pytest.fixture
async def group() -> AsyncIterator[StubGroup]:
    """Three stub nodes, one leads; topic T has four queues."""
    async with NameServer(port=0) as nameserver:
        made = StubGroup(nameserver)
        await made.start(3)
        made.create("T", 4)
        yield made
        for node in made.nodes:
            if not node.is_dead:
                node.kill()
