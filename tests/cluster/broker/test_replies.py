"""Request and reply: 324, 325 → 326 to the client that asked, wherever it is connected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.broker.produce import replies
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_RESPONSE, Frame, encode_frame
from commitlog.records.message import decode_message
from commitlog.records.properties import decode_properties
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import RawClient, handled, until

TOPIC = "DefaultCluster_REPLY_TOPIC"
TO_ASKER = "CORRELATION_ID\x01c-7\x02MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01asker@1"
V1 = {
    "producerGroup": "PG", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
    "queueId": 0, "sysFlag": 1, "bornTimestamp": 1700000000123, "flag": 5,
    "properties": TO_ASKER, "reconsumeTimes": 0, "unitMode": "false",
}  # fmt: skip


def reply(client: RawClient, properties: str = TO_ASKER, **more: Any) -> asyncio.Future[Frame]:
    more = {"topic": TOPIC, "body": b"answer", **more}
    return client.send(properties=properties, code=Code.SEND_REPLY_MESSAGE_V2, **more)


async def asker(client: RawClient) -> RawClient:
    client.client_id = "asker@1"
    assert (await client.heartbeat()).code == 0
    return client


async def pushed(client: RawClient, code: int = 0) -> Frame:
    """The reply that comes; the client says `code` to it."""

    def found() -> Frame | None:
        return next((n for n in client.notices if n.code == 326), None)

    notice: Frame = await until(found)
    client.notices.remove(notice)
    client.write(encode_frame(Frame(code, notice.opaque, flag=FLAG_RESPONSE)))
    return notice


@pytest.mark.parametrize("where", ["leader", "follower", "two followers"])
async def test_a_reply_reaches_whoever_asked(make_brokers: MakeBrokers, where: str) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        followers = [node for node in brokers.running() if node is not leader]
        at_asker, at_replier = {
            "leader": (leader, followers[0]),
            "follower": (followers[0], leader),
            "two followers": (followers[0], followers[1]),
        }[where]
        asking = await asker(await brokers.client(at_asker))
        name = "asker@1"
        registry = leader.parts.registry
        await until(lambda: registry.producer_channel(name) is not None)
        answering = await brokers.client(at_replier)
        told = reply(answering, h=5, f=1)
        notice = await pushed(asking)
        answer = await told
        assert (answer.code, answer.ext["msgId"], answer.ext["queueOffset"]) == (0, "0", "0")
        assert (answer.ext["queueId"], answer.ext["MSG_REGION"]) == ("0", "DefaultRegion")
        assert not notice.is_oneway
        assert notice.body == b"answer"
        ext = notice.ext
        assert (ext["topic"], ext["producerGroup"], ext["flag"]) == (TOPIC, "PG", "5")
        assert (ext["sysFlag"], ext["bornTimestamp"]) == ("1", "1700000000123")
        port = answering._writer.get_extra_info("sockname")[1]
        assert ext["bornHost"].endswith(f":{port}"), "the replying client, not the follower"
        assert ext["storeHost"] == leader.address
        properties = decode_properties(ext["properties"].encode())
        assert properties.pop("PUSH_REPLY_TIME") == ext["storeTimestamp"]
        assert properties == decode_properties(TO_ASKER.encode())


async def test_the_fields_of_324_have_names(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        asking = await asker(await brokers.client(await brokers.leader()))
        answering = await brokers.client(await brokers.follower())
        told = answering.ask(Code.SEND_REPLY_MESSAGE, V1, b"answer")
        notice = await pushed(asking)
        assert (notice.ext["flag"], notice.ext["defaultTopicQueueNums"]) == ("5", "4")
        assert (await told).code == 0


async def test_a_reply_is_stored_too_unless_that_is_off(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        asking = await asker(await brokers.client(leader))
        told = reply(asking)
        await pushed(asking)
        assert (await told).code == 0
        await until(lambda: leader.parts.state.queue_end(TOPIC, 0) == 1)
        found = await asking.pull(TOPIC, suspend_ms=1000)
        message = decode_message(found.body)
        assert (message.body, message.properties["CORRELATION_ID"]) == (b"answer", "c-7")


async def test_replies_that_are_only_pushed(make_brokers: MakeBrokers) -> None:
    async with make_brokers(store_replies=False) as brokers:
        leader = await brokers.leader()
        asking = await asker(await brokers.client(leader))
        told = reply(asking)
        await pushed(asking)
        assert (await told).code == 0
        last = leader.parts.log.store.last.index
        told = reply(asking)
        await pushed(asking)
        assert (await told).code == 0
        assert leader.parts.log.store.last.index == last


async def test_nobody_to_push_to(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        monkeypatch.setattr(replies, "REGISTRATION_SECONDS_MAX", 0.1)
        answer = await reply(client)
        assert answer.code == 1
        assert answer.remark == (
            "push reply message fail, channel of <asker@1> not found; leave it, the client that "
            "asked is gone"
        )
        answer = await reply(client, "CORRELATION_ID\x01c\x02")
        assert answer.code == 1
        assert answer.remark == "reply message properties[REPLY_TO_CLIENT] is null; send it"
        asking = await asker(await brokers.client(leader))
        told = reply(client)
        await pushed(asking, code=1)
        answer = await told
        assert answer.code == 1
        assert (answer.remark or "").startswith("push reply message to asker@1 fail; ")
        monkeypatch.setattr(replies, "PUSH_SECONDS_MAX", 0.05)
        answer = await within(reply(client), "a refusal")  # the asker says nothing
        assert answer.code == 1
        assert (answer.remark or "").startswith("push reply message to asker@1 fail; ")
        asking.close()
        await until(lambda: leader.parts.registry.producer_channel("asker@1") is None)
        assert (await reply(client)).code == 1


async def test_a_client_may_register_a_moment_after_it_asked(make_brokers: MakeBrokers) -> None:
    """Go's client asks at once and registers a second later; the reply is faster."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        told = reply(client)
        calls = leader.parts.calls
        await until(lambda: calls.looked_for == 1)  # the reply is there first
        assert not told.done()
        asking = await asker(await brokers.client(leader))
        await pushed(asking)
        assert (await told).code == 0


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "nowhere"}, 17), ({"topic": "a b"}, 29), ({"queue": 1}, 29),
        ({"queue": "x"}, 29), ({"h": 1 << 40}, 29), ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16),
        ({"body": b"x" * (4 << 20) + b"y"}, 13),
    ],
    ids=str,
)  # fmt: skip
async def test_replies_that_cannot_be(
    make_brokers: MakeBrokers, more: dict[str, Any], code: int
) -> None:
    async with make_brokers() as brokers:
        client = await asker(await brokers.client(await brokers.leader()))
        assert (await reply(client, **more)).code == code
        assert client.notices == [] or all(n.code != 326 for n in client.notices)


async def test_replies_that_wait_for_a_client_are_bounded(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "LOOKED_FOR_MAX", 2)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        told = [reply(client) for _ in range(5)]
        await until(lambda: sum(future.done() for future in told) == 3)
        await handled(client)
        done = [future for future in told if future.done()]
        waiting = [future for future in told if not future.done()]
        assert (len(done), len(waiting)) == (3, 2)
        assert {future.result().code for future in done} == {1}
        asking = await asker(await brokers.client(leader))
        for _ in waiting:
            await pushed(asking)
        assert [future.result().code for future in (await asyncio.wait(waiting))[0]] == [0, 0]
        assert leader.parts.calls.looked_for == 0
