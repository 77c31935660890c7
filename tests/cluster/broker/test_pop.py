"""Pop consumption over sockets: taken, acknowledged, hidden for longer, given again."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any

import pytest

from cluster.core.pop.handles import Handle
from cluster.core.pop.names import retry_topic
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from commitlog.records.message import Message, decode_message

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until

LONG_MS = 60_000


def messages(frame: Frame) -> list[Message]:
    found, at = [], 0
    while at < len(frame.body):
        found.append(decode_message(frame.body, at))
        at += found[-1].record_size
    return found


def texts(frame: Frame) -> list[bytes]:
    return [message.body for message in messages(frame)]


def pop(client: RawClient, topic: str = "T", **more: Any) -> asyncio.Future[Frame]:
    ext = {
        "consumerGroup": "CG",
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": LONG_MS,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
        "order": "false",
    }
    return client.ask(Code.POP_MESSAGE, {**ext, **more})


def handles(frame: Frame) -> list[Handle]:
    """As the official client makes them."""
    starts = {}
    for row in frame.ext["startOffsetInfo"].split(";"):
        marker, queue, start = row.split(" ")
        starts[marker, queue] = int(start)
    found = []
    for row in frame.ext["msgOffsetInfo"].split(";"):
        marker, queue, offsets = row.split(" ")
        for offset in offsets.split(","):
            ext = frame.ext
            found.append(
                Handle(
                    starts[marker, queue],
                    int(ext["popTime"]),
                    int(ext["invisibleTime"]),
                    int(ext["reviveQid"]),
                    marker,
                    "broker-a",
                    int(queue),
                    int(offset),
                )
            )
    return found


def named(handle: Handle, topic: str = "T", group: str = "CG", **more: Any) -> dict[str, Any]:
    if handle.marker != "0":
        topic = f"%RETRY%{group}{'_' if handle.marker == '1' else '+'}{topic}"
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": handle.queue,
        "extraInfo": str(handle),
        "offset": handle.offset,
        **more,
    }


async def ack(client: RawClient, handle: Handle, **more: Any) -> int:
    return (await client.ask(Code.ACK_MESSAGE, named(handle, **more))).code


async def filled(brokers: Brokers, number: int = 4, **more: Any) -> RawClient:
    client = await brokers.client(await brokers.leader())
    for i in range(number):
        assert (await client.send(body=b"%d" % i, **more)).code == 0
    return client


async def popped(client: RawClient, **more: Any) -> Frame:
    """Pops until something comes."""

    async def something() -> Frame | None:
        found = await pop(client, pollTime=300, **more)
        return None if found.code == 210 else found

    found: Frame = await until(something, "a message to pop")
    assert found.code == 0, found.remark
    return found


async def test_what_was_taken_is_given_to_nobody_else_and_gone_when_acknowledged(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        client = await filled(brokers, 5)
        first = await pop(client, maxMsgNums=3)
        assert texts(first) == [b"0", b"1", b"2"]
        assert first.ext["startOffsetInfo"] == "0 0 0"
        assert first.ext["msgOffsetInfo"] == "0 0 0,1,2"
        assert first.ext["restNum"] == "2"
        second = await pop(client)
        assert texts(second) == [b"3", b"4"]
        assert second.ext["startOffsetInfo"] == "0 0 3"
        third = await pop(client)
        assert (third.code, third.ext["restNum"]) == (210, "0")
        state = (await brokers.leader()).parts.state
        assert len(state.pop.held) == 2
        assert state.offsets.get("CG", "T", 0) == 5
        for handle in (*handles(first), *handles(second)):
            assert await ack(client, handle) == 0
            assert await ack(client, handle) == 0, "twice is once"
        for node in brokers.running():
            table = node.parts.state.pop
            await until(lambda table=table: table.changes >= 7 and not len(table.held))  # type: ignore[misc]


async def test_every_queue_is_asked_and_queues_by_name(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for queue in range(4):
            await client.send(body=b"%d" % queue, queue=queue)
        assert texts(await pop(client, queueId=2)) == [b"2"]
        rest = await pop(client)
        assert sorted(texts(rest)) == [b"0", b"1", b"3"]
        assert len(rest.ext["startOffsetInfo"].split(";")) == 3


async def test_who_does_not_acknowledge_gets_it_again_and_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 3, properties="KEYS\x01k\x02TAGS\x01t\x02")
        first = await pop(client, invisibleTime=300)
        assert await ack(client, handles(first)[1]) == 0
        again = await popped(client)
        assert sorted(texts(again)) == [b"0", b"2"]
        for message in messages(again):
            properties = message.properties
            assert message.topic == "T", "as the one that was asked for"
            assert message.reconsume_times == 1
            assert properties["RETRY_TOPIC"] == "T"
            assert properties["1ST_POP_TIME"] == first.ext["popTime"]
            assert (properties["KEYS"], properties["TAGS"]) == ("k", "t")
            parts = properties["POP_CK"].split(" ")
            assert parts[4:6] == ["1", "broker-a"]
        for handle in handles(again):
            assert handle.marker == "1"
            assert await ack(client, handle) == 0
        state = (await brokers.leader()).parts.state
        assert len(state.pop.held) == 0
        assert (await pop(client, pollTime=400)).code == 210
        assert state.queue_end("%RETRY%CG_T", 0) == 2


async def test_a_retried_message_comes_back_again_and_again(make_brokers: MakeBrokers) -> None:
    async with make_brokers(pop_retry_v2=True) as brokers:
        client = await filled(brokers, 1)
        times = []
        for _ in range(3):
            found = await popped(client, invisibleTime=100)
            times.append(messages(found)[0].reconsume_times)
            last = found
        assert times == [0, 1, 2]
        assert handles(last)[0].marker == "2"
        assert messages(last)[0].properties["1ST_POP_TIME"]
        state = (await brokers.leader()).parts.state
        assert state.topics.get("%RETRY%CG+T") is not None


@pytest.mark.parametrize("v2", [False, True])
async def test_a_deleted_topic_takes_its_retry_topics_with_it(
    make_brokers: MakeBrokers, v2: bool
) -> None:
    async with make_brokers(pop_retry_v2=v2) as brokers:
        client = await filled(brokers, 1)
        await popped(client, invisibleTime=100)
        await popped(client)
        topics = (await brokers.leader()).parts.state.topics
        retry = retry_topic("T", "CG", v2=v2)
        assert topics.get(retry) is not None
        assert (await client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        assert topics.get("T") is None
        assert topics.get(retry) is None


async def test_a_deleted_topic_leaves_the_retry_topic_of_a_group_of_such_a_name(
    make_brokers: MakeBrokers,
) -> None:
    """%RETRY%CG_T is of the group CG_T, which has offsets of another topic and no settings."""
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        await popped(client)
        assert (await client.send("other")).code == 0
        place = {"consumerGroup": "CG_T", "topic": "other", "queueId": 0, "commitOffset": 1}
        assert (await client.ask(Code.UPDATE_CONSUMER_OFFSET, place)).code == 0
        retry = {"topic": "%RETRY%CG_T", "defaultTopic": "TBW102", "readQueueNums": 1,
                 "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG"}  # fmt: skip
        assert (await client.ask(Code.UPDATE_AND_CREATE_TOPIC, retry)).code == 0
        topics = (await brokers.leader()).parts.state.topics
        assert topics.get("%RETRY%CG_T") is not None
        assert (await client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        assert topics.get("%RETRY%CG_T") is not None


async def test_an_acknowledged_message_stays_away_and_another_comes_after_a_leader_change(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        client = await filled(brokers, 6)
        first = await pop(client, maxMsgNums=4, invisibleTime=1500)
        held = handles(first)
        for handle in held[:2]:
            assert await ack(client, handle) == 0
        await brokers.stop_node(brokers.nodes.index(await brokers.leader()))
        client = await brokers.client(await brokers.leader())
        assert texts(await popped(client)) == [b"4", b"5"], "nothing that is held"
        assert await ack(client, held[2]) == 0, "the handle is good at the new leader"
        again = await popped(client)
        assert texts(again) == [b"3"]
        assert await ack(client, handles(again)[0]) == 0
        assert (await pop(client, pollTime=300)).code == 210


async def test_a_restart_keeps_what_is_held(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 2)
        first = await pop(client, invisibleTime=900)
        await brokers.stop_node(0)
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        assert (await pop(client)).code == 210
        assert await ack(client, handles(first)[0]) == 0
        assert texts(await popped(client)) == [b"1"]


async def test_more_time_and_a_void_handle(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        (handle,) = handles(await pop(client, invisibleTime=400))
        code = Code.CHANGE_MESSAGE_INVISIBLETIME
        longer = await client.ask(code, named(handle, invisibleTime=LONG_MS))
        assert longer.code == 0
        assert longer.ext["invisibleTime"] == str(LONG_MS)
        assert longer.ext["reviveQid"] == str(handle.revive_queue)
        assert (await client.ask(code, named(handle, invisibleTime=1))).code == 208, "used"
        assert (await pop(client, pollTime=700)).code == 210, "not before its new time"
        new = Handle(
            handle.offset, int(longer.ext["popTime"]), LONG_MS, handle.revive_queue, "0",
            "broker-a", 0, 0,
        )  # fmt: skip
        at_once = await client.ask(code, named(new, invisibleTime=1))
        assert at_once.code == 0
        assert texts(await popped(client)) == [b"0"]
        beyond = named(handle, invisibleTime=1) | {"offset": 99}
        assert (await client.ask(code, beyond)).code == 208


async def test_many_acknowledgements_in_one_request(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 12)
        found = await pop(client)
        first = handles(found)[0]
        row = {
            "c": "CG", "t": "T", "r": "0", "so": first.start, "q": 0, "rq": first.revive_queue,
            "pt": first.pop_ms, "it": LONG_MS, "b": base64.b64encode(b"\x09\x02").decode(),
        }  # fmt: skip
        body = json.dumps({"brokerName": "broker-a", "acks": [row]}).encode()
        assert (await client.ask(Code.BATCH_ACK_MESSAGE, body=body)).code == 0
        (address,) = (await brokers.leader()).parts.state.pop.held._rows
        held = (await brokers.leader()).parts.state.pop.held.get(address)
        assert held is not None
        assert sorted(held.left) == [1, 2, 4, 5, 6, 7, 8, 10, 11]
        assert (await client.ask(Code.BATCH_ACK_MESSAGE, body=body)).code == 0
        assert (await client.ask(Code.BATCH_ACK_MESSAGE, body=b"{}")).code == 208
        assert (await client.ask(Code.BATCH_ACK_MESSAGE, body=b"[]")).code == 29


async def test_a_pop_waits_for_a_message_and_one_of_two_gets_it(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await filled(brokers, 1)
        assert len(texts(await pop(client))) == 1
        follower = await brokers.client(await brokers.follower())
        first = pop(follower, pollTime=4000)
        second = pop(client, pollTime=4000)
        waits = (await brokers.leader()).parts.pop.waits
        await until(lambda: waits.count == 2)
        info = {"consumerGroup": "CG", "topic": "T", "queueId": -1}
        assert (await client.ask(Code.POLLING_INFO, info)).ext == {"pollingNum": "2"}
        await client.send(body=b"one", queue=3)
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        assert [texts(future.result()) for future in done] == [[b"one"]]
        assert waits.count == 1
        await client.send(body=b"two")
        assert {texts(await first)[0], texts(await second)[0]} == {b"one", b"two"}


async def test_who_waits_goes_on_at_the_next_leader(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await filled(brokers, 1)
        assert len(texts(await pop(client))) == 1
        follower = await brokers.follower()
        through = await brokers.client(follower)
        waiting = pop(through, pollTime=8000)
        leader = await brokers.leader()
        await until(lambda: leader.parts.pop.waits.count == 1)
        assert (await through.ask(Code.TRANSFER_LEADER)).code == 0
        new = await brokers.leader()
        await until(lambda: new.parts.pop.waits.count == 1)
        assert (await through.send(body=b"late")).code == 0
        assert texts(await waiting) == [b"late"]


async def test_filters_by_tag_and_by_expression(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for number in range(6):
            tag = "even" if number % 2 == 0 else "odd"
            await client.send(body=b"%d" % number, properties=f"a\x01{number}\x02TAGS\x01{tag}\x02")
        found = await pop(client, exp="even", expType="TAG")
        assert texts(found) == [b"0", b"2", b"4"]
        assert found.ext["msgOffsetInfo"] == "0 0 0,2,4"
        assert (await pop(client, exp="even", expType="TAG")).code == 210
        other = await pop(client, consumerGroup="G2", exp="a > 3", expType="SQL92")
        assert texts(other) == [b"4", b"5"]
        assert (await pop(client, exp="a > '1'", expType="SQL92")).code == 23
        for handle in handles(found):
            assert await ack(client, handle) == 0
        assert len((await brokers.leader()).parts.state.pop.held) == 1


async def test_a_new_group_begins_where_it_says(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 3)
        popping = (await brokers.leader()).parts.pop.popping
        assert len(texts(await pop(client, consumerGroup="MAX", initMode=1))) == 3, "young"
        import cluster.broker.pop.popping as module

        young = module.YOUNG_BYTES_MAX
        try:
            module.YOUNG_BYTES_MAX = 0
            late = await pop(client, consumerGroup="OLD", initMode=1)
        finally:
            module.YOUNG_BYTES_MAX = young
        assert texts(late) == [b"2"], "the last one, as RocketMQ"
        assert popping.cursors.known is not None
        assert len(texts(await pop(client, consumerGroup="MIN"))) == 3


async def test_an_administrators_offset_counts(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 5)
        assert len(texts(await pop(client))) == 5
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 3}
        assert (await client.ask(Code.UPDATE_CONSUMER_OFFSET, ext)).code == 0
        assert texts(await pop(client)) == [b"3", b"4"]


async def test_ordered_pops_block_their_queue_until_all_is_acknowledged(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 5)
        first = await pop(client, order="true", maxMsgNums=2)
        assert texts(first) == [b"0", b"1"]
        assert first.ext["reviveQid"] == "999"
        assert first.ext["orderCountInfo"] == "0 0 0"
        assert (await pop(client, order="true")).code == 210, "blocked"
        one, two = handles(first)
        assert await ack(client, two) == 0
        state = (await brokers.leader()).parts.state
        assert state.offsets.get("CG", "T", 0) == 0
        assert (await pop(client, order="true")).code == 210
        waiting = pop(client, order="true", pollTime=4000)
        assert await ack(client, one) == 0
        assert texts(await waiting) == [b"2", b"3", b"4"], "open at once"
        assert state.offsets.get("CG", "T", 0) == 2


async def test_ordered_messages_come_again_with_how_often(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 3)
        more = {"order": "true", "maxMsgNums": 2, "attemptId": "a1"}
        first = await pop(client, invisibleTime=300, **more)
        same = await pop(client, invisibleTime=300, **more)
        assert texts(same) == texts(first), "the same attempt may ask again"
        assert same.ext["orderCountInfo"] == "0 0 0"
        again = await popped(client, order="true", invisibleTime=LONG_MS)
        assert texts(again) == [b"0", b"1", b"2"]
        assert again.ext["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 0 0"
        one = handles(again)[0]
        code = Code.CHANGE_MESSAGE_INVISIBLETIME
        for handle in handles(again):
            assert (await client.ask(code, named(handle, invisibleTime=100))).code == 0
        third = await popped(client, order="true")
        assert third.ext["orderCountInfo"].startswith("0 qo0%0 2;")
        assert await ack(client, one) == 0, "of an earlier pop: nothing happens"
        state = (await brokers.leader()).parts.state
        assert state.offsets.get("CG", "T", 0) == 0


async def test_an_ordered_queue_stays_blocked_at_the_next_leader(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        client = await filled(brokers, 3)
        first = await pop(client, order="true", maxMsgNums=2)
        await brokers.stop_node(brokers.nodes.index(await brokers.leader()))
        client = await brokers.client(await brokers.leader())
        assert (await pop(client, order="true")).code == 210
        for handle in handles(first):
            assert await ack(client, handle) == 0
        assert texts(await pop(client, order="true")) == [b"2"]


async def test_peek_takes_nothing(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 3)
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": -1, "maxMsgNums": 2}
        await client.heartbeat()
        for _ in range(2):
            found = await client.ask(Code.PEEK_MESSAGE, ext)
            assert (texts(found), found.ext["restNum"]) == ([b"0", b"1"], "1")
        assert len(texts(await pop(client))) == 3
        assert (await client.ask(Code.PEEK_MESSAGE, ext)).code == 19


async def test_notification(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": -1, "pollTime": 4000, "bornTime": 0}
        found = await client.ask(Code.NOTIFICATION, ext)
        assert found.ext == {"hasMsg": "true", "pollingFull": "false"}
        await pop(client)
        waiting = client.ask(Code.NOTIFICATION, ext)
        await client.send()
        assert (await waiting).ext["hasMsg"] == "true"
        await pop(client)
        nothing = await client.ask(Code.NOTIFICATION, {**ext, "pollTime": 50})
        assert nothing.ext["hasMsg"] == "false"
        assert (await client.ask(Code.POP_ROLLBACK)).code == 0


async def test_too_many_that_wait(make_brokers: MakeBrokers) -> None:
    async with make_brokers(long_polls_max=1) as brokers:
        client = await filled(brokers, 1)
        await pop(client)
        pop(client, pollTime=4000)
        assert (await pop(client, pollTime=4000)).code == 209
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": -1, "pollTime": 4000, "bornTime": 0}
        full = await client.ask(Code.NOTIFICATION, ext)
        assert full.ext == {"hasMsg": "false", "pollingFull": "true"}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"maxMsgNums": 33}, 29),
        ({"maxMsgNums": 0}, 29),
        ({"invisibleTime": 0}, 29),
        ({"invisibleTime": 1 << 40}, 29),
        ({"queueId": 9}, 29),
        ({"queueId": -2}, 29),
        ({"topic": "nowhere"}, 17),
        ({"consumerGroup": "a b"}, 29),
        ({"bornTime": 1000, "pollTime": 10}, 210),
    ],
)
async def test_what_is_wrong_is_said(
    make_brokers: MakeBrokers, more: dict[str, Any], code: int
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        assert (await pop(client, **more)).code == code


async def test_handles_that_are_none(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        (handle,) = handles(await pop(client))
        for wrong in (
            "",
            "1 2 3",
            "x 1 1 1 0 b 0 0",
            "1 1 1 1 7 b 0 0",
            "9" * 30 + " 1 1 1 0 b 0 0",
        ):
            assert (await client.ask(Code.ACK_MESSAGE, named(handle, extraInfo=wrong))).code == 29
        foreign = Handle(0, 12345, 1, 0, "0", "broker-a", 0, 0)
        assert await ack(client, foreign) == 0, "nothing of it is held"
        assert await ack(client, handle, offset=7) == 208
        assert await ack(client, handle, group="Other") == 0
        assert len((await brokers.leader()).parts.state.pop.held) == 1


async def test_ordered_pops_are_exported(make_brokers: MakeBrokers) -> None:
    async with make_brokers(export_seconds=0.05) as brokers:
        client = await filled(brokers, 3)
        first = await pop(client, order="true", attemptId="a")
        assert await ack(client, handles(first)[1]) == 0
        path = brokers.root / "n0" / "config" / "consumerOrderInfo.json"

        def exported() -> Any:
            text = path.read_text() if path.exists() else ""
            return '"cm":2' in text.replace(" ", "") and text

        row = json.loads(re.sub(r"([{,])\s*(\d+):", r'\1"\2":', await until(exported)))
        found = row["table"]["T@CG"]["0"]
        assert (found["o"], found["cm"], found["a"]) == ([0, 1, 2], 2, "a")
        assert (found["i"], found["popTime"]) == (LONG_MS, int(first.ext["popTime"]))
