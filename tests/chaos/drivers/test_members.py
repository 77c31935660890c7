"""A node that lost its disk for good: an empty one takes its place, in another life."""

from __future__ import annotations

from random import Random
from typing import cast

import cluster
from chaos.drivers import members
from chaos.drivers.stage import Stage
from chaos.live.arena import Arena
from chaos.live.nodes import Nodes
from tests.waiting import limit

from ...conftest import MakeCluster


async def test_it_is_sent_everything_and_votes_in_another_life(make_cluster: MakeCluster) -> None:
    """The leader at that: nothing that it acknowledged is lost with its disk."""
    local = make_cluster()
    nodes = Nodes(local)
    leader = await nodes.leader()
    async with cluster.connect(local.nameserver) as client:
        await client.admin().create_topic("kept", queues=1)
        async with client.producer() as producer:
            receipt = await producer.send("kept", b"before")
        before = local.statuses()[leader]
        stage = Stage(cast(Arena, nodes), (leader,), 0.1, Random(1))
        told = await members.replaced(stage)
        assert told.startswith(f"{leader} lost its disk, votes ")
        await stage.up_again(leader)  # it starts again as any other
        await nodes.settled()
        after = local.statuses()[leader]
        assert before is not None
        assert after is not None
        assert after["life"] != before["life"]
        assert after["committed_index"] >= before["committed_index"]
        async with client.reader("kept") as reader:
            message = await reader.receive(limit(30))
    assert message is not None
    assert (message.body, message.queue_offset) == (b"before", receipt.queue_offset)
