"""Name servers that do not answer, and brokers that are asked in their place."""

from __future__ import annotations

import pytest

import cluster
from cluster.client.admin.topics import topic_settings
from cluster.errors import NotConnected, RequestNotSupported, ServiceNotAvailable, TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, refusal

from ..stub_cluster import HANDLERS, StubConnection, StubGroup

pytestmark = pytest.mark.virtual_time


async def test_the_next_name_server_is_asked(group: StubGroup) -> None:
    address = f"127.0.0.1:1;{group.nameserver.address}"
    async with cluster.connect(address) as client:
        assert "T" in await client.admin().list_topics()
        assert "T" in await client.admin().list_topics()


async def test_nobody_answers() -> None:
    async with cluster.connect("127.0.0.1:1;127.0.0.1:2") as client:
        with pytest.raises(NotConnected, match=r"127.0.0.1:1"):
            await client.admin().list_topics()


async def test_a_broker_leads_to_its_name_servers(group: StubGroup) -> None:
    """Of two addresses of one broker and a dead one; a broker that names nobody says so."""
    group.nameservers = group.nameserver.address
    node = group.nodes[0].address
    async with cluster.connect(f"127.0.0.1:1;{node}") as client:
        assert "T" in await client.admin().list_topics()
        async with client.producer() as producer:
            await producer.send("T", b"x")
    assert [stored.body for stored in group.log] == [b"x"]
    for named in ("", node):
        group.nameservers = named
        async with cluster.connect(node) as client:
            with pytest.raises(RequestNotSupported, match=f"{node} is a broker that registers"):
                await client.admin().list_topics()


async def test_a_topic_that_is_not_registered_yet_is_found_at_its_leader(group: StubGroup) -> None:
    """A broker answers the send that creates a topic, and then registers the topic."""
    group.topics["early"] = 3
    async with cluster.connect(group.nameserver.address) as client:
        routes = client.instance.routes
        with pytest.raises(TopicNotFound):
            await routes.registered_route("early")
        route = await routes.refresh("early")
        assert [queue.queue_id for queue in route.read_queues("early")] == [0, 1, 2]
        async with client.producer() as producer:
            await producer.send("early", b"x")
        group.register()
        assert await routes.registered_route("early") == await routes.refresh("early")


async def test_a_topic_of_no_leader_does_not_exist(group: StubGroup) -> None:
    async with cluster.connect(group.nameserver.address) as client:
        with pytest.raises(TopicNotFound, match="dledger topic create"):
            await client.instance.routes.refresh("none")
        group.nodes[0].kill()
        with pytest.raises(TopicNotFound, match="dledger topic create"):
            await client.instance.routes.refresh("none")


async def test_after_a_refusal_of_a_node_without_a_leader_the_name_servers_are_asked(
    group: StubGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such is one that came back on an empty folder: it would be asked until the next look."""
    handler = HANDLERS[RequestCode.GET_TOPIC_CONFIG]

    def of_leader(self: StubConnection, frame: Frame) -> Frame | None:
        if self.node is not group.leader:
            return refusal(frame, ServiceNotAvailable("no leader can be reached at the moment"))
        return handler(self, frame)

    monkeypatch.setitem(HANDLERS, RequestCode.GET_TOPIC_CONFIG, of_leader)
    async with cluster.connect(group.nameserver.address) as client:

        async def asked() -> int:
            return (await topic_settings(client.instance, "broker-a", "T")).read_queues

        before = await asked()
        group.elect(group.nodes[1])
        with pytest.raises(ServiceNotAvailable):
            await asked()
        assert await asked() == before
