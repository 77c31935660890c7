"""The broker as administrators see it, queues on disk, SQL92 subscriptions, orderly locks."""

from __future__ import annotations

import json

from cluster.protocol.codes import RequestCode as Code

from .conftest import MakeBrokers
from .harness import RawClient, bodies, until


async def test_runtime_figures_and_settings(make_brokers: MakeBrokers) -> None:
    async with make_brokers(broker_name="broker-a") as brokers:
        client = await brokers.client(await brokers.leader())
        for _ in range(3):
            await client.send()
        await client.pull()
        table = json.loads((await client.ask(Code.GET_BROKER_RUNTIME_INFO)).body)["table"]
        assert all(isinstance(value, str) for value in table.values())
        assert table["brokerVersionDesc"] == "V5_3_3"
        assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("3", "3")
        assert len(table["putTps"].split()) == 3
        assert 0 < float(table["commitLogDiskRatio"]) < 1
        config = (await client.ask(Code.GET_BROKER_CONFIG)).body.decode()
        assert "brokerName=broker-a\n" in config
        assert (await client.ask(Code.UPDATE_BROKER_CONFIG, body=b"a=b")).code == 0
        assert (await client.ask(25, body=b"brokerName=broker-a")).code == 0
        refused = await client.ask(25, body=b"traceOn=false")
        assert refused.code == 29
        assert "restart" in (refused.remark or "")
        assert (await client.ask(25, body=b"nonsense")).code == 29
        listed = json.loads((await client.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body)
        assert "TBW102" in listed["topicList"]
        assert (await client.ask(Code.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
        assert (await client.ask(Code.CLEAN_UNUSED_TOPIC)).code == 0


async def test_statistics_by_topic_and_group(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for _ in range(5):
            await client.send()
        assert len(bodies((await client.pull()).body)) == 5
        put = await client.ask(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
        assert json.loads(put.body)["statsMinute"]["sum"] == 5
        got = await client.ask(315, {"statsName": "GROUP_GET_NUMS", "statsKey": "T@CG"})
        assert json.loads(got.body)["statsDay"]["sum"] == 5
        assert (await client.ask(315, {"statsName": "x", "statsKey": "T"})).code == 1


async def test_a_replay_counts_nothing(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        await client.send()
        await brokers.stop_node(0)
        (brokers.root / "n0" / "state.ckpt").unlink()
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        await client.pull()
        assert (await client.ask(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})).code == 1


async def test_entries_of_a_queue(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for tag in ("TagA", "TagB"):
            await client.send(properties=f"TAGS\x01{tag}\x02")
        await client.heartbeat(expression="TagB")
        ext = {"topic": "T", "queueId": 0, "index": 0, "count": 10, "consumerGroup": "CG"}
        found = json.loads((await client.ask(Code.QUERY_CONSUME_QUEUE, ext)).body)
        assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 2)
        assert [row["eval"] for row in found["queueData"]] == [False, True]
        assert [row["tagsCode"] for row in found["queueData"]] == [2598919, 2598920]
        assert (await client.ask(321, {**ext, "index": 2})).code == 22
        assert (await client.ask(321, {**ext, "index": -1})).code == 29


async def test_several_topics_at_once_and_pages(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        rows = [
            {"topicName": f"L{i}", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
            for i in range(3)
        ]
        body = json.dumps({"topicConfigList": rows}).encode()
        assert (await client.ask(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code == 0
        assert (await client.ask(351, {"topic": "L2"})).code == 0
        rows[1]["perm"] = 99
        rows[0]["topicName"] = "M0"
        body = json.dumps({"topicConfigList": rows}).encode()
        assert (await client.ask(18, body=body)).code == 29
        assert (await client.ask(351, {"topic": "M0"})).code == 17, "all or none"
        page = await client.ask(21, {"topicSeq": 0, "maxTopicNum": 2})
        assert len(json.loads(page.body)["topicConfigTable"]) == 2
        assert int(page.ext["totalTopicNum"]) > 2


async def test_sql92_filters_what_is_pulled_and_what_wakes(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader())
        for number in range(6):
            await client.send(body=b"%d" % number, properties=f"a\x01{number}\x02")
        how = {"expressionType": "SQL92", "subscription": "a > 3 OR a = '0'"}
        answer = await client.pull(**how)  # type: ignore[arg-type]
        assert bodies(answer.body) == [b"0", b"4", b"5"]
        assert answer.ext["nextBeginOffset"] == "6"
        none = await client.pull(expressionType="SQL92", subscription="a > 100")
        assert (none.code, none.ext["nextBeginOffset"]) == (20, "6")
        few = await client.pull(count=1, **how)  # type: ignore[arg-type]
        assert (bodies(few.body), few.ext["nextBeginOffset"]) == ([b"0"], "1")
        parked = client.pull(offset=6, suspend_ms=4000, **how)  # type: ignore[arg-type]
        await client.send(body=b"no", properties="a\x011\x02")
        await client.send(body=b"yes", properties="a\x019\x02")
        assert bodies((await parked).body) == [b"yes"]
        follower = await brokers.client(await brokers.follower())
        assert bodies((await follower.pull(**how)).body)[:3] == [b"0", b"4", b"5"]  # type: ignore[arg-type]


async def check(client: RawClient, kind: str, text: str) -> int:
    data = {"topic": "T", "subString": text, "expressionType": kind}
    body = json.dumps({"clientId": "c", "group": "CG", "subscriptionData": data}).encode()
    return (await client.ask(Code.CHECK_CLIENT_CONFIG, body=body)).code


async def test_expressions_are_checked_before_a_client_starts(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert await check(client, "SQL92", "a > 1") == 0
        assert await check(client, "TAG", "a || b") == 0
        assert await check(client, "SQL92", "a > '1'") == 23
        assert await check(client, "XPATH", "a") == 23
        assert (await client.ask(46, body=b"{}")).code == 29


def lock_body(client_id: str, *queues: int) -> bytes:
    rows = [{"topic": "T", "brokerName": "broker-a", "queueId": queue} for queue in queues]
    rows += [{"topic": "T", "brokerName": "broker-b", "queueId": 0}]
    return json.dumps({"consumerGroup": "CG", "clientId": client_id, "mqSet": rows}).encode()


async def held(client: RawClient, client_id: str, *queues: int) -> list[int]:
    answer = await client.ask(Code.LOCK_BATCH_MQ, body=lock_body(client_id, *queues))
    assert answer.code == 0, answer.remark
    rows = json.loads(answer.body)["lockOKMQSet"]
    assert all(row["brokerName"] == "broker-a" for row in rows)
    return sorted(row["queueId"] for row in rows)


async def test_locks_survive_a_change_of_leader(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        await client.send()
        assert await held(client, "c1", 0, 1, 99) == [0, 1]
        assert await held(client, "c2", 1, 2) == [2]
        assert await held(client, "c1", 0, 1) == [0, 1], "renewed"
        for node in brokers.running():
            locks = node.parts.state.locks
            await until(lambda locks=locks: locks.count == 3)  # type: ignore[misc]
        leader = await brokers.leader()
        await brokers.stop_node(int(leader.config.node_id[1:]))
        client = await brokers.client(await brokers.leader())
        assert await held(client, "c3", 0, 1, 2, 3) == [3], "owners are known to the new leader"
        assert (await client.ask(42, body=lock_body("c1", 0))).code == 0
        assert await held(client, "c3", 0, 1) == [0]


async def test_traces_of_clients_have_a_topic(make_brokers: MakeBrokers) -> None:
    """The client sends them as messages; the broker needs the topic alone.

    Source: docs/spec/remoting.md 4.9.
    """
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        sent = await client.send(topic="RMQ_SYS_TRACE_TOPIC", body=b"Pub")
        assert (sent.code, sent.ext["TRACE_ON"]) == (0, "true")
        pulled = await client.pull(topic="RMQ_SYS_TRACE_TOPIC")
        assert bodies(pulled.body) == [b"Pub"]
