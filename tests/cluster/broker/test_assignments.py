"""Queues assigned by the broker: 400, 401, 402."""

from __future__ import annotations

import json
from typing import Any

from cluster.broker.consume.topic_routes import TopicRoutes
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.json_body import MessageQueue

from .conftest import MakeBrokers
from .harness import RawClient, until


async def assigned(client: RawClient, **more: Any) -> Any:
    value = {
        "topic": "T",
        "consumerGroup": "CG",
        "clientId": client.client_id,
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
        **more,
    }
    answer = await client.ask(Code.QUERY_ASSIGNMENT, body=json.dumps(value).encode())
    assert answer.code == 0, answer.remark
    rows = json.loads(answer.body).get("messageQueueAssignments")
    return rows and [(row["messageQueue"]["queueId"], row["mode"]) for row in rows]


async def set_mode(client: RawClient, **more: Any) -> int:
    value = {"topic": "T", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": -1, **more}
    answer = await client.ask(Code.SET_MESSAGE_REQUEST_MODE, body=json.dumps(value).encode())
    return answer.code


async def test_members_share_the_queues(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        first = await brokers.client(await brokers.leader())
        second = await brokers.client(await brokers.follower())
        second.client_id = "client@2"
        assert (await first.send()).code == 0
        assert await assigned(first) is None, "nobody is known: keep what you have"
        await first.heartbeat()
        await second.heartbeat()
        assert await assigned(first) == [(0, "PULL"), (1, "PULL")]
        assert await assigned(second) == [(2, "PULL"), (3, "PULL")]
        circle = await assigned(second, strategyName="AVG_BY_CIRCLE")
        assert circle == [(1, "PULL"), (3, "PULL")]
        everything = await assigned(second, messageModel="BROADCASTING")
        assert [queue for queue, _ in everything] == [0, 1, 2, 3]
        assert await assigned(second, strategyName="CONFIG") is None
        assert await assigned(second, topic="nowhere") is None


async def test_a_mode_is_in_the_log_on_every_replica_and_survives(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, export_seconds=0.05) as brokers:
        client = await brokers.client(await brokers.follower())
        await client.send()
        await client.heartbeat()
        assert await set_mode(client) == 0
        assert await assigned(client) == [(-1, "POP")]
        for node in brokers.running():
            modes = node.parts.state.modes
            await until(lambda modes=modes: modes.get("T", "CG").mode == "POP")  # type: ignore[misc]
        found = json.loads((await client.ask(Code.GET_ALL_MESSAGE_REQUEST_MODE)).body)
        assert found["messageRequestModeMap"]["T"]["CG"]["mode"] == "POP"
        path = brokers.root / "n0" / "config" / "messageRequestMode.json"
        assert json.loads(await until(lambda: path.exists() and path.read_text()))
        await brokers.stop_node(0)
        await brokers.start_node(0)
        state = brokers.nodes[0].parts.state  # type: ignore[union-attr]
        await until(lambda: state.modes.get("T", "CG").mode == "POP")


async def test_what_cannot_be_set_is_said(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert await set_mode(client, topic="%RETRY%CG") == 16
        assert await set_mode(client, mode="PUSH") == 29
        assert await set_mode(client, topic="") == 29
        assert await set_mode(client, popShareQueueNum="x") == 29
        assert (await client.ask(Code.QUERY_ASSIGNMENT, body=b"{}")).code == 29


async def test_routes_are_asked_once_and_kept_for_a_moment(
    make_brokers: MakeBrokers, monkeypatch: Any
) -> None:
    asked: list[str] = []
    wide = [MessageQueue("T", name, 0) for name in ("broker-a", "broker-b")]

    async def registered(self: TopicRoutes, topic: str) -> list[MessageQueue]:
        asked.append(topic)
        return wide

    monkeypatch.setattr(TopicRoutes, "_registered", registered)
    async with make_brokers(name_servers=("127.0.0.1:1",)) as brokers:
        client = await brokers.client(await brokers.leader())
        await client.heartbeat()
        for _ in range(3):
            assert len(await assigned(client)) == 2, "queues of other broker names, too"
        assert asked == ["T"]


async def test_without_a_name_server_that_answers_it_is_this_brokers_queues(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(name_servers=("127.0.0.1:1",)) as brokers:
        client = await brokers.client(await brokers.leader())
        await client.send()
        await client.heartbeat()
        assert len(await assigned(client)) == 4
