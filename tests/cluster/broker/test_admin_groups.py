"""Consumer groups as administrators see them: settings, members, progress, offsets moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_RESPONSE, Frame, encode_frame
from cluster.protocol.json_body import MessageQueue, load_queue_map

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until

T0 = MessageQueue("T", "broker-a", 0)
GROUP: dict[str, Any] = {"groupName": "G2", "retryMaxTimes": 3, "consumeEnable": True}


async def consumer(brokers: Brokers, *, messages: int = 3) -> RawClient:
    """A member of CG, connected to a follower when there is one; T has messages in queue 0."""
    node = await (brokers.follower() if len(brokers.hosts) > 1 else brokers.leader())
    client = await brokers.client(node)
    for number in range(messages):
        assert (await client.send(body=b"%d" % number)).code == 0
    assert (await client.heartbeat()).code == 0
    return client


def commit(client: RawClient, offset: int) -> Any:
    ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": offset}
    return client.ask(Code.UPDATE_CONSUMER_OFFSET, ext)


def offset_of(client: RawClient, group: str = "CG") -> Any:
    ext = {"consumerGroup": group, "topic": "T", "queueId": 0, "setZeroIfNotFound": "false"}
    return client.ask(Code.QUERY_CONSUMER_OFFSET, ext)


async def test_settings_are_kept_by_every_replica(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        put = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert (await client.ask(put, body=json.dumps(GROUP).encode())).code == 0
        found = await client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G2"})
        assert json.loads(found.body)["retryMaxTimes"] == 3
        rows = json.dumps({"groupConfigList": [{"groupName": f"L{i}"} for i in range(3)]})
        listed = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        assert (await client.ask(listed, body=rows.encode())).code == 0
        table = json.loads((await client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
        assert {"G2", "L0", "L2"} <= table["subscriptionGroupTable"].keys()
        page = await client.ask(
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": 1, "maxGroupNum": 2}
        )
        assert len(json.loads(page.body)["subscriptionGroupTable"]) == 2
        for node in brokers.running():
            state = node.parts.state
            await until(lambda state=state: state.groups.get("L2"))  # type: ignore[misc]
            assert state.topics.get("%RETRY%G2") is not None


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b"{}", b'{"groupName":7}', b'{"groupName":"a b"}',
        b'{"groupName":"g","retryQueueNums":0}', b'{"groupName":"g","retryQueueNums":100000}',
        b'{"groupName":"g","retryMaxTimes":"x"}', b'{"groupName":"g","consumeEnable":1}',
        b'{"groupName":"g","attributes":[]}', b'{"groupName":"' + b"g" * 121 + b'"}',
    ],
)  # fmt: skip
async def test_impossible_settings(make_brokers: MakeBrokers, body: bytes) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        answer = await client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == 29, answer.remark


async def test_a_deleted_group_takes_its_offsets_with_it(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await consumer(brokers)
        assert (await commit(client, 2)).code == 0
        kept = await client.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG"})
        assert (kept.code, (await offset_of(client)).ext["offset"]) == (0, "2")
        ext = {"groupName": "CG", "cleanOffset": "true"}
        assert (await client.ask(Code.DELETE_SUBSCRIPTIONGROUP, ext)).code == 0
        assert (await offset_of(client)).code == 22
        assert (await client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "CG"})).code == 26
        own = await client.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "TOOLS_CONSUMER"})
        assert own.code == 16


async def test_a_group_that_may_not_read(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await consumer(brokers)
        ban = Code.UPDATE_AND_GET_GROUP_FORBIDDEN
        assert (await client.ask(ban, {"group": "CG", "topic": "T"})).ext["readable"] == "true"
        banned = await client.ask(ban, {"group": "CG", "topic": "T", "readable": "false"})
        assert banned.ext == {"group": "CG", "topic": "T", "readable": "false"}
        assert (await client.pull()).code == 16
        assert (await client.pull(group="CG_OTHER")).code == 0
        table = json.loads((await client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
        assert table["forbiddenTable"] == {"CG": {"T": 1}}
        lifted = await client.ask(ban, {"group": "CG", "topic": "T", "readable": "true"})
        assert lifted.ext["readable"] == "true"
        assert (await client.pull()).code == 0
        off = json.dumps({"groupName": "CG", "consumeEnable": False}).encode()
        assert (await client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=off)).code == 0
        assert (await client.pull()).code == 16


async def test_who_is_connected(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await consumer(brokers)
        admin = await brokers.client(await brokers.leader())
        found = await admin.ask(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "CG"})
        body = json.loads(found.body)
        (member,) = body["connectionSet"]
        assert (member["clientId"], member["language"], member["version"]) == (
            "client@1", "JAVA", 479,
        )  # fmt: skip
        assert member["clientAddr"].rpartition(":")[0]
        assert body["subscriptionTable"]["T"]["subString"] == "*"
        assert body["consumeType"] == "CONSUME_PASSIVELY"
        gone = await admin.ask(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "nobody"})
        assert gone.code == 206
        ext = {"producerGroup": "PG"}
        listed = json.loads((await admin.ask(Code.GET_PRODUCER_CONNECTION_LIST, ext)).body)
        assert [row["clientId"] for row in listed["connectionSet"]] == ["client@1"]
        none = await admin.ask(Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "x"})
        assert none.code == 1
        producers = json.loads((await admin.ask(Code.GET_ALL_PRODUCER_INFO)).body)["data"]
        assert producers["PG"][0]["lastUpdateTimestamp"] > 1_700_000_000_000
        assert (await commit(client, 1)).code == 0
        who = await admin.ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
        assert json.loads(who.body) == {"groupList": ["CG"]}
        topics = await admin.ask(Code.QUERY_TOPICS_BY_CONSUMER, {"group": "CG"})
        assert json.loads(topics.body)["topicList"] == ["T"]
        ext = {"group": "CG", "topic": "T"}
        wanted = json.loads((await admin.ask(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, ext)).body)
        assert wanted["subscriptionData"]["topic"] == "T"


async def test_how_far_a_group_is(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await consumer(brokers)
        assert (await commit(client, 2)).code == 0
        stats = await client.ask(Code.GET_CONSUME_STATS, {"consumerGroup": "CG"})
        row = load_queue_map(stats.body, "offsetTable")[T0]
        assert (row["brokerOffset"], row["consumerOffset"], row["pullOffset"]) == (3, 2, 2)
        assert row["lastTimestamp"] > 1_700_000_000_000
        ext: dict[str, Any] = {"consumerGroup": "CG", "topicList": "T;nowhere"}
        assert T0 in load_queue_map((await client.ask(208, ext)).body, "offsetTable")
        whole = await client.ask(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        assert b'"totalDiff":1' in whole.body
        assert b'[{"CG":[{"consumeTps":' in whole.body
        spans = await client.ask(Code.QUERY_CONSUME_TIME_SPAN, {"group": "CG", "topic": "T"})
        first = json.loads(spans.body)["consumeTimeSpanSet"][0]
        assert first["minTimeStamp"] <= first["consumeTimeStamp"] <= first["maxTimeStamp"]
        offsets = await client.ask(Code.GET_ALL_CONSUMER_OFFSET)
        assert offsets.body == b'{"offsetTable":{"T@CG":{0:2}}}'
        corrected = await client.ask(Code.QUERY_CORRECTION_OFFSET, {"topic": "T"})
        assert corrected.body == b'{"correctionOffsets":{0:2}}'
        assert int((await client.ask(Code.QUERY_BROKER_OFFSET)).ext["offset"]) > 0


async def test_offsets_are_reset_logged_and_told(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await consumer(brokers)
        assert (await commit(client, 2)).code == 0
        admin = await brokers.client(await brokers.leader())
        ext = {"topic": "T", "group": "CG", "timestamp": 0, "isForce": "true"}
        answer = await admin.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, ext)
        assert load_queue_map(answer.body, "offsetTable")[T0] == 0
        assert (await offset_of(admin)).ext["offset"] == "0"
        notice = await until(lambda: [n for n in client.notices if n.code == 220])
        assert load_queue_map(notice[0].body, "offsetTable")[T0] == 0
        assert notice[0].is_oneway
        end = await admin.ask(222, {**ext, "timestamp": -1, "isForce": "false"})
        assert load_queue_map(end.body, "offsetTable")[T0] == 0, "never forward without force"
        end = await admin.ask(222, {**ext, "timestamp": -1, "queueId": 0})
        assert load_queue_map(end.body, "offsetTable") == {T0: 3}
        far = await admin.ask(222, {**ext, "queueId": 0, "offset": 9})
        assert far.code == 29
        assert (await admin.ask(222, {**ext, "group": "nobody"})).code == 206
        assert (await admin.ask(222, {**ext, "topic": "nowhere"})).code == 17
        clone = {"srcGroup": "CG", "destGroup": "CG_X", "topic": "T"}
        assert (await admin.ask(Code.CLONE_GROUP_OFFSET, clone)).code == 0
        assert (await offset_of(admin, "CG_X")).ext["offset"] == "3"


async def answer_next(client: RawClient, code: int, body: bytes) -> Frame:
    """Answer the broker's question of that code, as a client does."""
    (question,) = await until(lambda: [n for n in client.notices if n.code == code])
    client.write(encode_frame(Frame(0, question.opaque, {}, body, FLAG_RESPONSE)))
    assert isinstance(question, Frame)
    return question


async def test_a_client_of_a_follower_is_asked_through_the_leader(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        client = await consumer(brokers)
        admin = await brokers.client(await brokers.leader())
        await until(lambda: brokers.find_leader().parts.registry.consumer_ids("CG"))  # type: ignore[union-attr]
        asked = admin.ask(307, {"consumerGroup": "CG", "clientId": "client@1"})
        await answer_next(client, 307, b'{"properties":{}}')
        assert (await asked).body == b'{"properties":{}}'
        sent = await client.send(body=b"direct")
        ext = {"consumerGroup": "CG", "clientId": "client@1", "msgId": sent.ext["msgId"]}
        asked = admin.ask(309, ext)
        question = await answer_next(client, 309, b'{"consumeResult":"CR_SUCCESS"}')
        assert b"direct" in question.body
        assert (await asked).body == b'{"consumeResult":"CR_SUCCESS"}'
        asked = admin.ask(223, {"topic": "T", "group": "CG"})
        await answer_next(client, 221, b'{"messageQueueTable":{{"queueId":0}:5}}')
        assert b'{"consumerTable":{"client@1":{{"queueId":0}:5}}' in (await asked).body
        absent = await admin.ask(307, {"consumerGroup": "CG", "clientId": "nobody"})
        assert absent.code == 1


async def test_replicas_that_applied_the_same_hold_the_same(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await consumer(brokers)
        assert (await commit(client, 2)).code == 0
        ban = {"group": "CG", "topic": "T", "readable": "false"}
        assert (await client.ask(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, ban)).code == 0
        row = {"topic": "T", "brokerName": "broker-a", "queueId": 1}
        lock = {"consumerGroup": "CG", "clientId": "c", "mqSet": [row]}
        assert (await client.ask(41, body=json.dumps(lock).encode())).code == 0
        assert (await client.ask(207, {"groupName": "G9", "cleanOffset": "true"})).code == 0

        def states() -> list[bytes]:
            found = [node.parts.state for node in brokers.running()]
            return [state.to_checkpoint() for state in found if state.locks.count]

        await until(lambda: len(states()) == 3 and len(set(states())) == 1)
        leader = await brokers.leader()
        before = leader.parts.state.to_checkpoint()
        number = int(leader.config.node_id[1:])
        await brokers.stop_node(number)
        node = await brokers.start_node(number)
        state = node.parts.state
        await until(lambda: state.locks.count == 1 and state.groups.forbidden("CG", "T") == 1)
        again = json.loads(state.to_checkpoint())
        for part in ("topics", "groups", "offsets", "locks"):
            assert again[part] == json.loads(before)[part], part
