"""A cluster without any name server: the address of any node is enough for a client."""

from __future__ import annotations

import pytest

import cluster
from cluster.client import Client, ClientConfig, ConsumerConfig
from cluster.client.consumer import rebalance
from cluster.errors import ClusterError
from tests.waiting import eventually, limit

from .conftest import MakeBrokers

QUICK = ClientConfig(
    stall_timeout=0.1, request_timeout=limit(5), replica_fallback=0.3, retry_pause=0.01
)


async def works(mq: Client, topic: str) -> None:
    """Create, list, describe, alter, send, consume, ask for groups, members and states."""
    admin = mq.admin()
    await admin.create_topic(topic, 2)
    assert topic in await admin.list_topics()
    async with mq.producer() as producer:
        for body in (b"one", b"two"):
            await producer.send(topic, body, queue_id=0)
    assert (await admin.describe_topic(topic)).message_count == 2
    async with mq.consumer(topic, group="G", config=ConsumerConfig(manual_ack=True)) as consumer:
        for body in (b"one", b"two"):
            message = await consumer.receive(limit(10))
            assert message is not None
            assert message.body == body
            consumer.ack(message)
        await consumer.commit()
        found = await admin.groups().describe("G")
        assert [row.messages for row in found.queues if row.queue.topic == topic] == [0, 0]
    (name,) = (await admin.status()).brokers
    assert len((await admin.members(name))["members"]) == len(await admin.replicas())
    altered = await admin.alter_topic(topic, 3)
    assert altered[name].write_queues == 3


@pytest.mark.parametrize("asked", ["leader", "follower"])
async def test_a_node_without_name_servers_is_enough_for_every_verb(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(rebalance, "HANDOVER_PAUSE", 0.01)
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        node = leader if asked == "leader" else await brokers.follower()
        async with cluster.connect(node.address, QUICK) as mq:
            await works(mq, "T")
            data = (await mq.admin().status()).brokers["broker-a"]
            assert data.leader == leader.address
            assert len(set(data.addresses.values())) == 3


async def test_a_client_outlives_the_node_that_it_was_given(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        async with cluster.connect(leader.address, QUICK) as mq:
            await mq.admin().create_topic("T", 1)
            async with mq.producer() as producer:
                await producer.send("T", b"before")
                await brokers.stop_node(brokers.nodes.index(leader))
                await producer.send("T", b"after")

            async def is_listed() -> bool:
                try:
                    return "T" in await mq.admin().list_topics()
                except ClusterError:
                    return False

            await eventually(is_listed, "the topics, as another node says")
