"""The relay port: sends reach the leader, a dead node leaves routes, tools find nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.admin.readiness import not_ready
from cluster.broker.client_ports import ClientPorts
from cluster.broker.node import BrokerNode
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.json_body import dump, load
from cluster.protocol.topics import decode_topic_stats
from commitlog.records.batch import BatchItem, encode_client_batch
from tests.cluster.protocol.test_raw_sends import java

from .access_world import ACCOUNTS, SETTINGS, TOPIC, Ask, Signing, new_topic, send
from .conftest import MakeBrokers
from .harness import until
from .test_client_ports import another_program, listens_before_it_opens

RELAY_PORT = 10915
RELAY = "~1@broker-a"
RETRY = "%RETRY%CG"


def relay_of(node: BrokerNode) -> str:
    return f"{node.address.rpartition(':')[0]}:{RELAY_PORT}"


def end_of_queue(node: BrokerNode) -> int:
    queue = node.parts.derived.queue("T", 0)
    return 0 if queue is None else queue.max_offset


def shown(server: NameServer) -> dict[str, str | None]:
    """Name → id 0, as a stock client gets it for the topic."""
    route = server.registry.route("T", 0.0, stock=True, relays=True)
    return {} if route is None else {one.broker_name: one.leader for one in route.brokers}


async def test_routes_follow_who_lives_and_relays_take_sends(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        settings = {"name_servers": (server.address,), "relay_port": RELAY_PORT}
        async with make_brokers(3, **settings) as brokers:
            leader = await brokers.leader()
            to_leader = await brokers.client(leader)
            assert (await to_leader.send()).code == 0
            followers = {relay_of(node): node for node in brokers.running() if node is not leader}
            await until(lambda: shown(server).get(RELAY) in followers, "a follower is the relay")
            relay = followers[str(shown(server)[RELAY])]

            client = await brokers.client_of(relay_of(relay))
            assert (await client.send()).code == 0
            assert relay.parts.links.forwarded >= 1
            assert relay.status()["sends_through_relays"] == 1

            # The relay dies without an election: the other follower takes its place.
            await brokers.stop_node(brokers.nodes.index(relay))
            (other,) = [one for one in followers if one != relay_of(relay)]
            await until(lambda: shown(server)[RELAY] == other, "the living follower is the relay")
            assert shown(server)["broker-a"] == leader.address


async def test_a_relay_port_that_another_program_has_is_told_to_nobody(
    make_brokers: MakeBrokers, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is ready and may lead; name servers hear of its relay when the port is free."""
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        settings = {"name_servers": (server.address,), "relay_port": RELAY_PORT}
        async with make_brokers(3, **settings) as brokers:
            leader = await brokers.leader()
            assert (await (await brokers.client(leader)).send()).code == 0
            first, second = (node for node in brokers.running() if node is not leader)
            number, other = brokers.nodes.index(first), brokers.nodes.index(second)
            await brokers.stop_node(number)
            with another_program(brokers.hosts[number], RELAY_PORT) as program:
                listens_before_it_opens(program, monkeypatch)
                stays_closed, tries = ClientPorts._stays_closed, list[str]()

                def counted(ports: ClientPorts, port: Any, error: OSError) -> None:
                    tries.append(port.address)
                    stays_closed(ports, port, error)

                monkeypatch.setattr(ClientPorts, "_stays_closed", counted)
                node = await brokers.start_node(number)
                await until(lambda: node.status()["closed_relay_ports"], "its relay port is closed")
                await until(
                    lambda: not_ready(node.status(), lag_max=10, has_name_servers=True) == "",
                    "the node is ready",
                )
                await brokers.stop_node(other)
                await until(lambda: RELAY not in shown(server), "no relay is told of")
                leader.parts.log.transfer(node.config.node_id, lambda _: None)
                await until(lambda: brokers.find_leader() is node, "it leads")
                seen = len(tries)
                await until(lambda: len(tries) > seen + 1, "it tried its port again, twice")
                assert brokers.find_leader() is node
                node.parts.log.transfer(leader.config.node_id, lambda _: None)
                await until(lambda: brokers.find_leader() is leader, "the former leader leads")
                await until(lambda: shown(server).get("broker-a") == leader.address, "it is told")
                assert RELAY not in shown(server)
            await until(lambda: shown(server).get(RELAY) == relay_of(node), "its relay is told of")
            assert node.status()["closed_relay_ports"] == {}


async def test_tools_that_add_up_find_nothing_on_a_relay(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        to_leader = await brokers.client(leader)
        assert (await to_leader.send()).code == 0
        for node in (leader, follower):
            relay = await brokers.client_of(relay_of(node))
            stats = await relay.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
            assert decode_topic_stats(stats.body) == {}
            found = await relay.ask(
                RequestCode.QUERY_MESSAGE,
                {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1},
            )
            assert found.code == 22, found.remark
            rates = await relay.ask(
                RequestCode.VIEW_BROKER_STATS_DATA,
                {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"},
            )
            assert load(rates.body, "statistics")["statsMinute"]["sum"] == 0
            end = await relay.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
            assert end.ext["offset"] == "1", "what is asked of one name goes to the leader"
        stats = await to_leader.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        assert len(decode_topic_stats(stats.body)) > 0


async def test_one_address_in_front_is_what_stock_clients_are_told(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        settings = {"name_servers": (server.address,), "advertised_relay": "10.9.9.9:10911"}
        async with make_brokers(3, relay_port=RELAY_PORT, **settings) as brokers:
            client = await brokers.client(await brokers.follower())
            assert (await client.send()).code == 0
            await until(lambda: shown(server) == {"broker-a": "10.9.9.9:10911"}, "the address")


async def test_sends_of_java_clients_are_copied_to_the_leader_and_read_by_it(
    make_brokers: MakeBrokers,
) -> None:
    """A header as fastjson writes it; a broken one costs its own connection and no other."""
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        assert (await (await brokers.client(leader)).send()).code == 0
        for node in (follower, leader):
            client = await brokers.client_of(relay_of(node))
            answers = [client.waits_for(opaque) for opaque in (100, 101)]
            client.write(b"".join(java(opaque=opaque) for opaque in (100, 101)))
            assert [(await answer).code for answer in answers] == [0, 0]
            refused = client.waits_for(102)
            client.write(java(opaque=102, extFields={"b": "T"}))
            assert "lacks its field" in str((await refused).remark)
        broken = await brokers.client_of(relay_of(follower))
        broken.write(java(opaque=1).replace(b'"a":"PG"', b'"a":"PG,'))
        client = await brokers.client_of(relay_of(follower))
        assert (await client.send()).code == 0
        await until(lambda: end_of_queue(leader) == 6, "each message once")
        assert follower.status()["sends_through_relays"] == 5


async def test_go_clients_reach_the_rest_of_the_queues_through_relays(
    make_brokers: MakeBrokers,
) -> None:
    """Of a topic with four, queues 0, 1, 2 of a relay are 1, 2, 3, whoever leads (rest_queues.py).

    What they send to a client port, and what others send to a relay, is for the queue it names.
    """
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        made = {**new_topic("T").ext, "readQueueNums": 4, "writeQueueNums": 4}
        admin = await brokers.client(leader)
        assert (await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, made)).code == 0
        batch = encode_client_batch([BatchItem(0, b"one", b""), BatchItem(0, b"two", b"")])
        for node in (leader, follower):
            go, java_client = [await brokers.client_of(relay_of(node)) for _ in range(2)]
            direct = await brokers.client(node)
            go.language = direct.language = "GO"
            named = [await go.send(queue=queue) for queue in range(4)]
            assert [one.ext["queueId"] for one in named] == ["1", "2", "3", "3"]
            sent = await go.send(body=batch, queue=1, code=RequestCode.SEND_BATCH_MESSAGE)
            assert (sent.code, sent.ext["queueId"]) == (0, "2"), sent.remark
            half = await go.send(queue=2, f=4, properties="TRAN_MSG\x01true\x02PGROUP\x01PG\x02")
            assert (half.code, half.ext["queueId"]) == (0, "3"), half.remark
            delayed = await go.send(queue=0, properties="DELAY\x011\x02")
            assert (delayed.code, delayed.ext["queueId"]) == (0, "1"), delayed.remark
            for other in (direct, java_client):
                assert [(await other.send(queue=q)).ext["queueId"] for q in (0, 1)] == ["0", "1"]


async def test_signed_sends_of_go_clients_through_relays_are_put_in_their_queue(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    """The signature is over the queue that the client named, so the frame is passed on as it is."""
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    settings = {**SETTINGS, "acl_file": str(accounts), "relay_port": RELAY_PORT}
    made = Ask({**new_topic(TOPIC).ext, "readQueueNums": 4, "writeQueueNums": 4})
    async with make_brokers(3, **settings) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        admin = Signing(await brokers.client(leader), "account-admin")
        assert (await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, made)).code == 0
        for node in (leader, follower):
            client = await brokers.client_of(relay_of(node))
            client.language = "GO"
            writer = Signing(client, "account-write")
            sent = await writer.ask(RequestCode.SEND_MESSAGE_V2, send(TOPIC, e=1))
            assert (sent.code, sent.ext.get("queueId")) == (0, "2"), sent.remark


async def test_a_consumer_at_both_ports_is_one_client(make_brokers: MakeBrokers) -> None:
    """It says its heartbeats to every address of a route; two connections would be two clients."""
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        ways = [
            await brokers.client(leader),
            await brokers.client(follower),
            await brokers.client_of(relay_of(follower)),
        ]
        for _ in range(3):
            for client in ways:
                client.client_id = "c@1"
                assert (await client.heartbeat()).code == 0
        for node in (leader, follower):
            assert node.parts.registry.consumer_ids("CG") == ["c@1"]
        # What was passed on is with the leader when it has answered what was passed on after it.
        assert (await ways[2].send()).code == 0
        assert (await ways[1].send()).code == 0
        assert [node.parts.registry.watch.shared for node in (leader, follower)] == [[], []]


async def test_queues_of_a_notification_route_are_empty_and_at_position_0(
    make_brokers: MakeBrokers,
) -> None:
    """What a consumer asks about one is answered by the node that it asks, and changes nothing."""
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        to_leader = await brokers.client(leader)
        assert (await to_leader.heartbeat()).code == 0
        assert (await to_leader.send(RETRY)).code == 0
        queue = {"consumerGroup": "CG", "topic": RETRY, "queueId": 0}
        for node in (leader, follower):
            relay = await brokers.client_of(relay_of(node))
            assert (await relay.pull(RETRY)).code == ResponseCode.PULL_NOT_FOUND
            commit = await relay.ask(
                RequestCode.UPDATE_CONSUMER_OFFSET, queue | {"commitOffset": 1}
            )
            assert commit.code == 0
            for code in (
                RequestCode.QUERY_CONSUMER_OFFSET,
                RequestCode.GET_MAX_OFFSET,
                RequestCode.GET_MIN_OFFSET,
            ):
                assert (await relay.ask(code, queue)).ext["offset"] == "0"
            names = {"topic": RETRY, "brokerName": "~2@broker-a", "queueId": 0}
            wish = dump({"consumerGroup": "CG", "clientId": "c", "mqSet": [names]})
            locked = await relay.ask(RequestCode.LOCK_BATCH_MQ, body=wish)
            assert load(locked.body, "locks") == {"lockOKMQSet": []}
            members = await relay.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, queue)
            assert load(members.body, "members")["consumerIdList"] == [to_leader.client_id]
        assert (await to_leader.pull(RETRY)).code == 0, "the real queue has the message"
        assert leader.parts.state.offsets.get("CG", RETRY, 0) is None


async def test_a_pull_at_the_relay_port_is_answered_when_another_node_leads(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0, notify_routes=True) as server:
        settings = {"name_servers": (server.address,), "relay_port": RELAY_PORT}
        async with make_brokers(3, **settings) as brokers:
            leader, follower = await brokers.leader(), await brokers.follower()
            consumer = await brokers.client(follower)
            assert (await consumer.heartbeat()).code == 0
            relay = await brokers.client_of(relay_of(follower))
            pull = relay.pull(RETRY, suspend_ms=20_000)
            await until(lambda: len(follower.parts.notices) == 1, "it waits")
            await brokers.stop_node(brokers.nodes.index(leader))
            assert (await pull).code == ResponseCode.PULL_OFFSET_MOVED
            route = server.registry.route(RETRY, 0.0, stock=True, notify=True)
            assert route is not None
            assert route.brokers[0].leader != leader.address, "it finds the new leader"
            assert follower.status()["notifications"] >= 1


async def test_groups_that_cannot_use_a_notification_route_have_none(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    """Nor do those of whom a member holds a lock; each of several members gets a queue."""
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0, notify_routes=True) as server:
        settings = {"name_servers": (server.address,), "relay_port": RELAY_PORT}
        async with make_brokers(3, **settings) as brokers:
            leader = await brokers.leader()

            def queues() -> int:
                route = server.registry.route(RETRY, 0.0, stock=True, notify=True)
                found = route.queues if route is not None else ()
                return sum(one.read_queue_count for one in found if "~" in one.broker_name)

            clients = [await brokers.client(leader) for _ in range(3)]
            for number, client in enumerate(clients):
                client.client_id = f"c@{number}"
                assert (await client.heartbeat()).code == 0
            await until(lambda: queues() == 8, "a queue for each member")
            clients[2].language = "GO"
            assert (await clients[2].heartbeat()).code == 0
            await until(lambda: queues() == 0, "none with a member of another language")
            clients[2].language = "JAVA"
            assert (await clients[2].heartbeat()).code == 0
            await until(lambda: queues() == 8, "again")
            mine = {"topic": RETRY, "brokerName": "broker-a", "queueId": 0}
            body = dump({"consumerGroup": "CG", "clientId": "c@0", "mqSet": [mine]})
            locked = await clients[0].ask(RequestCode.LOCK_BATCH_MQ, body=body)
            assert load(locked.body, "locks")["lockOKMQSet"]
            await until(lambda: queues() == 0, "none with locks")
