"""Our own client's requests and replies, over brokers: 325 → 326 → the one who asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import cluster
from cluster.client import (
    Client,
    Producer,
    Receipt,
    ReceivedMessage,
    Requester,
    blocking,
)
from cluster.client.producer import requester
from cluster.client.routing.broadcast import BrokerBroadcast
from cluster.errors import (
    ClientClosed,
    ConnectionLost,
    InvalidRequest,
    Outcome,
    QueueFull,
    ReplyTimeout,
    ServerError,
    TopicNotFound,
)
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.heartbeat import HeartbeatData
from tests.waiting import limit, within

from .conftest import MakeBrokers
from .harness import Brokers, until
from .test_our_client import QUICK, serving
from .test_replies import reply

LONG = limit(30)


def another(brokers: Brokers) -> Client:
    """A client of its own, as another process has it."""
    return cluster.connect(brokers.settings["name_servers"][0], QUICK)


async def next_request(mq: Client, group: str = "G") -> ReceivedMessage:
    async with mq.consumer("T", group=group) as consumer:
        found = await within(consumer.receive(), "the request")
        assert found is not None
        consumer.ack(found)
    return found


def ask(asking: Requester, body: bytes) -> asyncio.Task[ReceivedMessage]:
    return asyncio.ensure_future(asking.request("T", body, time_limit=LONG))


@pytest.mark.parametrize("number", [1, 3])
async def test_a_request_gets_its_reply(
    make_brokers: MakeBrokers, new_address: Callable[[], str], number: int
) -> None:
    async with (
        serving(make_brokers, new_address(), number) as (brokers, mq),
        another(brokers) as other,
        mq.requester() as asking,
    ):
        told = asyncio.ensure_future(
            asking.request("T", b"6 * 7", time_limit=LONG, key="k", tags="a", properties={"p": "1"})
        )
        request = await next_request(other)
        assert (request.body, request.keys, request.tags) == (b"6 * 7", ["k"], "a")
        assert request.properties["p"] == "1"
        assert request.properties["TTL"] == str(int(LONG * 1000))
        assert not told.done()
        assert asking.waiting_count == 1
        await other.reply(request, b"42", properties={"q": "2"})
        found = await within(told, "the reply")
        assert (found.body, found.properties["q"]) == (b"42", "2")
        assert (found.topic, found.queue_offset, found.position) == (
            "DefaultCluster_REPLY_TOPIC",
            -1,
            -1,
        )
        for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"):
            assert found.properties[name] == request.properties[name]
        assert found.properties["MSG_TYPE"] == "reply"
        assert asking.waiting_count == 0


async def test_each_request_gets_its_own_reply(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with (
        serving(make_brokers, new_address()) as (_, mq),
        mq.requester() as first,
        mq.requester() as second,
        mq.consumer("T", group="G") as consumer,
    ):
        told = [ask((first, second)[n % 2], b"%d" % n) for n in range(20)]
        requests = [await within(consumer.receive(), "a request") for _ in told]
        for request in reversed(requests):
            assert request is not None
            await mq.reply(request, b"to " + request.body)
        found = await within(asyncio.gather(*told), "all replies")
        assert [reply.body for reply in found] == [b"to %d" % n for n in range(20)]


async def test_one_requester_that_goes_leaves_the_other_reachable(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq), mq.requester("PG") as stays:
        told = ask(stays, b"x")
        request = await next_request(mq)
        async with mq.requester("PG") as goes:
            await goes.open_topic("T")
        await mq.reply(request, b"y")
        assert (await within(told, "the reply")).body == b"y"


async def test_nobody_replies(make_brokers: MakeBrokers, new_address: Callable[[], str]) -> None:
    async with serving(make_brokers, new_address()) as (_, mq), mq.requester() as asking:
        await asking.open_topic("T")
        with pytest.raises(ReplyTimeout, match="and no reply came") as caught:
            await asking.request("T", b"x", time_limit=0.05)
        assert caught.value.outcome is Outcome.UNKNOWN
        assert asking.waiting_count == 0


async def test_a_reply_that_nobody_waits_for_any_more_is_taken(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq), mq.requester() as asking:
        told = ask(asking, b"x")
        request = await next_request(mq)
        told.cancel()
        await asyncio.wait([told])
        assert asking.waiting_count == 0
        await mq.reply(request, b"late")
        told = ask(asking, b"again")
        request = await next_request(mq)
        await mq.reply(request, b"first")
        await mq.reply(request, b"a repeat")
        assert (await within(told, "the reply")).body == b"first"


async def test_replies_that_reach_nobody(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (brokers, mq):
        async with another(brokers) as other:
            asking = other.requester()
            told = ask(asking, b"x")
            request = await next_request(mq)
            await asking.close()
            with pytest.raises(ClientClosed, match="before the reply came"):
                await told
            with pytest.raises(ServerError, match="not found"):
                await mq.reply(request, b"y")
        async with mq.producer() as producer:
            await producer.send("T", b"no request")
        plain = await next_request(mq)
        assert plain.body == b"no request"
        with pytest.raises(InvalidRequest, match="asks for no reply"):
            await mq.reply(plain, b"y")


async def test_a_reply_finds_its_way_by_the_next_leader(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with (
        serving(make_brokers, new_address(), 3) as (brokers, mq),
        another(brokers) as other,
        mq.requester() as asking,
    ):
        told = ask(asking, b"x")
        request = await next_request(other)
        leader = await brokers.leader()
        await brokers.stop_node(int(leader.config.node_id[1:]))
        await brokers.leader()
        await other.reply(request, b"y")
        assert (await within(told, "the reply")).body == b"y"


async def test_stock_clients_understand_both_ways(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    """By the frames that Java sends and reads: a reply of ours to it, and one of its to us."""
    async with serving(make_brokers, new_address()) as (brokers, mq), mq.requester() as asking:
        stock = await brokers.client(await brokers.leader())
        told = ask(asking, b"x")
        request = await next_request(mq)
        wanted = ("CORRELATION_ID", "REPLY_TO_CLIENT")
        block = "".join(f"{name}\x01{request.properties[name]}\x02" for name in wanted)
        answer = await reply(stock, block + "MSG_TYPE\x01reply")  # without a last separator
        assert answer.code == 0
        assert (await within(told, "the reply")).body == b"answer"

        stock.client_id = "asker@1"
        assert (await stock.heartbeat()).code == 0
        block = "CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01asker@1\x02TTL\x013000"
        assert (await stock.send(properties=block)).code == 0
        replying = asyncio.ensure_future(mq.reply(await next_request(mq), b"to stock"))
        pushed = await until(lambda: next((n for n in stock.notices if n.code == 326), None))
        assert pushed.body == b"to stock"
        assert pushed.ext["properties"].startswith(
            "MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01asker@1\x02"
        )
        assert pushed.code == Code.PUSH_REPLY_MESSAGE_TO_CLIENT
        replying.cancel()


async def test_a_reply_says_that_a_request_without_a_receipt_was_stored(
    make_brokers: MakeBrokers, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = Producer.send_encoded
    is_replied = True

    async def loses_the_receipt(*args: Any, **more: Any) -> Receipt:
        await sending(*args, **more)
        if is_replied:
            await mq.reply(await next_request(mq), b"y")
        raise ConnectionLost("the connection ended")

    async with serving(make_brokers, new_address()) as (_, mq), mq.requester() as asking:
        monkeypatch.setattr(Producer, "send_encoded", loses_the_receipt)
        assert (await within(ask(asking, b"x"), "the reply")).body == b"y"
        is_replied = False
        with pytest.raises(ConnectionLost):
            await ask(asking, b"x")
        assert asking.waiting_count == 0


async def test_a_new_leader_hears_at_once_where_replies_go(
    make_brokers: MakeBrokers, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[HeartbeatData] = []
    beating = BrokerBroadcast.heartbeat

    async def heard(everywhere: BrokerBroadcast, heartbeat: HeartbeatData) -> None:
        told.append(heartbeat)
        await beating(everywhere, heartbeat)

    monkeypatch.setattr(BrokerBroadcast, "heartbeat", heard)
    seldom = replace(QUICK, heartbeat_period=3600.0)
    async with (
        serving(make_brokers, new_address(), 3) as (brokers, _),
        cluster.connect(brokers.settings["name_servers"][0], seldom) as mq,
        mq.requester("PG") as asking,
    ):
        await asking.open_topic("T")
        assert len(told) == 1
        leader = await brokers.leader()
        await brokers.stop_node(int(leader.config.node_id[1:]))
        await until(lambda: len(told) >= 2, "a heartbeat for the new leader")
        assert told[0].producer_groups == told[1].producer_groups == ("PG",)
        assert told[0].client_id == told[1].client_id


@pytest.mark.parametrize("time_limit", [0.0, -1.0, float("nan"), float("inf")])
async def test_limits_that_say_nothing(time_limit: float) -> None:
    async with cluster.connect("127.0.0.1:1", QUICK) as mq, mq.requester() as asking:
        with pytest.raises(InvalidRequest, match="time_limit"):
            await asking.request("T", b"x", time_limit=time_limit)


async def test_requests_that_wait_are_bounded(
    make_brokers: MakeBrokers, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requester, "WAITING_COUNT_MAX", 2)
    async with serving(make_brokers, new_address()) as (_, mq), mq.requester() as asking:
        told = [ask(asking, b"x") for _ in range(2)]
        await until(lambda: asking.waiting_count == 2)
        with pytest.raises(QueueFull, match="wait for their replies"):
            await asking.request("T", b"x", time_limit=LONG)
        for _ in told:
            await mq.reply(await next_request(mq), b"y")
        assert [found.body for found in await asyncio.gather(*told)] == [b"y", b"y"]


async def test_a_topic_that_is_not_there(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with (
        serving(make_brokers, new_address(), auto_create_topics=False) as (_, mq),
        mq.requester() as asking,
    ):
        with pytest.raises(TopicNotFound):
            await asking.request("nowhere", b"x", time_limit=LONG)
        assert asking.waiting_count == 0


async def test_the_blocking_twin(make_brokers: MakeBrokers, new_address: Callable[[], str]) -> None:
    async with serving(make_brokers, new_address()) as (brokers, mq):
        (address,) = brokers.settings["name_servers"]

        def work() -> bytes:
            with blocking.connect(address, QUICK) as threads, threads.requester() as asking:
                return asking.request("T", b"x", time_limit=LONG).body

        told = asyncio.ensure_future(asyncio.to_thread(work))
        await mq.reply(await next_request(mq), b"y")
        assert await within(told, "the reply") == b"y"
