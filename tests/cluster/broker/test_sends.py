"""Sends: every form of request, every refusal, limits (docs/spec/remoting.md 2.2)."""

from __future__ import annotations

import asyncio
import struct

import pytest

from cluster.protocol.codes import RequestCode
from commitlog.records.batch import BatchItem, encode_client_batch
from commitlog.records.message import decode_message

from .conftest import MakeBrokers
from .harness import OWN, bodies


async def test_a_send_by_field_names_is_the_same(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        ext = {
            "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4, "queueId": 1, "sysFlag": 1, "bornTimestamp": 123,
            "flag": 7, "properties": "TAGS\x01A", "reconsumeTimes": 2, "unitMode": "false",
        }  # fmt: skip
        answer = await client.ask(RequestCode.SEND_MESSAGE, ext, b"zipped")
        assert (answer.code, answer.ext["queueId"]) == (0, "1"), answer.remark
        message = decode_message((await client.pull(queue=1)).body)
        assert (message.flag, message.sys_flag, message.reconsume_times) == (7, 1, 2)
        assert (message.born_timestamp_ms, message.tags) == (123, "A")


async def test_what_the_broker_adds_replaces_what_came(make_brokers: MakeBrokers) -> None:
    """A client that sends a received message again has the broker's properties already."""
    async with make_brokers(region="Here", cluster_name="Mine") as brokers:
        client = await brokers.client(await brokers.leader())
        properties = "CLUSTER\x01Other\x02POP_CK\x01x\x02MSG_REGION\x01There\x02UNIQ_KEY\x01U\x02"
        answer = await client.send(properties=properties + "k\x01v")
        assert answer.ext["MSG_REGION"] == "Here"
        assert answer.ext["transactionId"] == "U"
        record = (await client.pull()).body
        assert decode_message(record).properties == {
            "CLUSTER": "Mine", "MSG_REGION": "Here", "TRACE_ON": "true", "UNIQ_KEY": "U", "k": "v",
        }  # fmt: skip
        assert record.count(b"CLUSTER") == 1


async def test_a_batch_is_contiguous_and_keeps_its_items_properties(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        items = [BatchItem(i, b"b%d" % i, b"k\x01%d\x02" % i) for i in range(3)]
        answer = await client.send(
            body=encode_client_batch(items), code=RequestCode.SEND_BATCH_MESSAGE
        )
        assert answer.code == 0, answer.remark
        assert len(answer.ext["msgId"].split(",")) == 3
        record = (await client.pull()).body
        assert bodies(record) == [b"b0", b"b1", b"b2"]
        assert decode_message(record).properties == {"k": "0"}


async def test_a_batch_is_stored_whole_or_not_at_all(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(body=b"0")).code == 0
        good = encode_client_batch([BatchItem(0, b"good", b"k\x01v\x02")] * 2)
        size = 22 + 3 + 40_000
        fat = struct.pack(">iiiii", size, 0, 0, 0, 3) + b"fat" + struct.pack(">H", 40_000)
        code = RequestCode.SEND_BATCH_MESSAGE
        for odd, answer in (
            (good + fat + b"p" * 40_000, 13),
            (good + good[:-1], 29),
            (encode_client_batch([BatchItem(0, b"x", b"DELAY\x013\x02")]), 3),
            (encode_client_batch([BatchItem(0, b"x", b"TIMER_DELIVER_MS\x019\x02")]), 3),
        ):
            assert (await client.send(body=odd, code=code)).code == answer
        assert (await client.send(body=b"1")).ext["queueOffset"] == "1"
        assert bodies((await client.pull()).body) == [b"0", b"1"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "bad topic"}, 29),
        ({"topic": ""}, 29),
        ({"topic": "x" * 128}, 29),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16),
        ({"topic": "rmq_sys_dledger_offsets"}, 16),
        ({"queue": 99}, 29),
        ({"c": "nowhere", "topic": "U"}, 17),
        ({"f": 4}, 29),
        ({"properties": "DELAY\x01soon\x02"}, 29),
        ({"properties": "TIMER_DELAY_SEC\x01259201\x02"}, 13),
        ({"properties": "TIMER_DELAY_MS\x013e3\x02"}, 29),
        ({"properties": "TIMER_DELIVER_MS\x0119000000000000\x02"}, 13),
        ({"code": RequestCode.SEND_REPLY_MESSAGE_V2}, 1),
        ({"h": 1 << 40}, 29),
        ({"g": "soon"}, 29),
        ({"code": RequestCode.SEND_BATCH_MESSAGE, "body": b"rubbish"}, 29),
        ({"code": RequestCode.SEND_BATCH_MESSAGE, "body": b""}, 29),
        ({"properties": "k\x01" + "v" * 32_700 + "\x02"}, 13),
    ],
)
async def test_refusals_store_nothing(
    make_brokers: MakeBrokers, more: dict[str, object], code: int
) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send()).code == 0
        answer = await client.send(**more)  # type: ignore[arg-type]
        assert answer.code == code, (answer.code, answer.remark)
        assert answer.remark
        after = await client.send(body=b"after")
        assert after.ext["queueOffset"] == "1", "no offset was lost"
        assert bodies((await client.pull()).body) == [b"hello", b"after"]


async def test_a_body_over_the_limit(make_brokers: MakeBrokers) -> None:
    async with make_brokers(body_size_max=1000) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(body=bytes(1000))).code == 0
        assert (await client.send(body=bytes(1001))).code == 13
        assert (await client.send(body=b"")).code == 0, "empty is fine for the store"


async def test_without_auto_creation_a_topic_must_exist(make_brokers: MakeBrokers) -> None:
    async with make_brokers(auto_create_topics=False) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send()).code == 17


async def test_a_send_to_any_queue_creates_a_retry_topic(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        answer = await client.send(topic="%RETRY%young", queue=3)
        assert (answer.code, answer.ext.get("queueId")) == (0, "3"), answer.remark


async def test_many_sends_create_their_topic_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        clients = [await brokers.client(leader) for _ in range(3)]
        before = leader.parts.state.topics.version.counter
        answers = await asyncio.gather(*(c.send(topic="New") for c in clients for _ in range(5)))
        assert {a.code for a in answers} == {0}
        assert leader.parts.state.topics.version.counter == before + 1
        assert sorted(int(a.ext["queueOffset"]) for a in answers) == list(range(15))


async def test_a_queue_below_zero_is_picked_by_the_broker(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        answers = await asyncio.gather(*(client.send(queue=-1) for _ in range(8)))
        assert {a.ext["queueId"] for a in answers} == {"0", "1", "2", "3"}


async def test_oneway_sends_are_stored_and_not_answered(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(body=b"0")).code == 0
        ext = {
            "a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0,
            "i": "", "j": 0, "k": "false", "m": "false", "n": "",
        }  # fmt: skip
        client.ask(RequestCode.SEND_MESSAGE_V2, ext, b"1", flag=2)
        assert (await client.send(body=b"2")).ext["queueOffset"] == "2"
        assert bodies((await client.pull()).body) == [b"0", b"1", b"2"]


async def test_overload_is_refused_at_once_and_nothing_is_lost(make_brokers: MakeBrokers) -> None:
    async with make_brokers(in_flight_count_max=5) as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        assert (await client.send()).code == 0
        answers = await asyncio.gather(*(client.send(body=b"%d" % i) for i in range(40)))
        codes = [a.code for a in answers]
        assert set(codes) == {0, 2}
        stored = [b"%d" % i for i, code in enumerate(codes) if code == 0]
        pulled = bodies((await client.pull(offset=1)).body)
        assert pulled == stored
        offsets = [int(a.ext["queueOffset"]) for a in answers if a.code == 0]
        assert offsets == list(range(1, len(stored) + 1)), "refused ones took no offset"


async def test_store_stamps_never_go_back(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader())
        for i in range(5):
            assert (await client.send(body=b"%d" % i)).code == 0
        await brokers.stop_node(int((await brokers.leader()).config.node_id[1:]))
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send(body=b"5")).code == 0
        data = (await client.pull()).body
        stamps, at = [], 0
        while at < len(data):
            message = decode_message(data, at)
            stamps.append(message.store_timestamp_ms)
            at += message.record_size
        assert len(stamps) == 6
        assert stamps == sorted(stamps)
