"""Topics and status by way of the admin."""

from __future__ import annotations

import pytest

import cluster
from cluster.errors import InvalidRequest

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time


async def test_admin(group: StubGroup) -> None:
    async with cluster.connect(group.nameserver.address) as client:
        admin = client.admin()
        await admin.create_topic("Made", 3)
        assert {"Made", "T", "TBW102"} == set(await admin.list_topics())
        async with client.producer() as producer:
            await producer.send("Made", b"x", queue_id=2)
        described = await admin.describe_topic("Made")
        assert described.message_count == 1
        assert [(q.queue_id, row.max_offset) for q, row in described.bounds.items()] == [
            (0, 0), (1, 0), (2, 1),
        ]  # fmt: skip
        status = await admin.status()
        assert status.brokers["broker-a"].leader == group.nodes[0].address
        assert status.brokers["broker-a"].term == 1
        with pytest.raises(InvalidRequest, match="4096"):
            await admin.create_topic("Made", 5000)
