"""Queues with extensions: tags and SQL92 subscriptions through bitmaps.

Source: docs/spec/store.md 3.4, 7.5.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from cluster.protocol.heartbeat import ConsumerData, HeartbeatData, Subscription, encode_heartbeat

from .conftest import MakeBrokers
from .harness import RawClient, bodies, until

ON: dict[str, Any] = {"queue_ext_enabled": True, "filter_bitmap_enabled": True}
TEXT = "a > 5"


def subscribe(client: RawClient, text: str = TEXT, group: str = "CG") -> asyncio.Future[Frame]:
    wanted = Subscription("T", text, "SQL92", version=1)
    data = HeartbeatData(client.client_id, (), (ConsumerData(group, (wanted,)),))
    return client.ask(Code.HEART_BEAT, body=encode_heartbeat(data))


async def send(client: RawClient, *numbers: int) -> None:
    for number in numbers:
        properties = f"a\x01{number}\x02TAGS\x01{'even' if number % 2 == 0 else 'odd'}\x02"
        assert (await client.send(body=b"%d" % number, properties=properties)).code == 0


def reads_of(node: BrokerNode) -> list[int]:
    """Positions of the records that pulls read one by one from now on."""
    reader, seen = node.parts.reader, []
    read = reader.records

    def watched(wanted: Any) -> Any:
        seen.extend(position for position, _ in wanted)
        return read(wanted)

    reader.records = watched  # type: ignore[method-assign]
    return seen


async def test_messages_for_others_are_skipped_without_reading_them(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(**ON) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        await send(client, 9, 1)
        assert len(bodies((await client.pull()).body)) == 2, "dispatched"
        assert (await subscribe(client)).code == 0
        await brokers.next_millisecond()
        await send(client, 2, 7, 3, 8)
        seen = reads_of(leader)
        pulled = await client.pull(expressionType="SQL92", subscription=TEXT)
        assert bodies(pulled.body) == [b"9", b"7", b"8"]
        assert pulled.ext["nextBeginOffset"] == "6"
        assert len(seen) == 4, "the two from before the subscription, and the two that match"
        other = await client.pull(expressionType="SQL92", subscription="a < 3")
        assert bodies(other.body) == [b"1", b"2"], "an expression nobody registered reads all"


async def test_by_the_heartbeats_subscription(make_brokers: MakeBrokers) -> None:
    async with make_brokers(**ON) as brokers:
        client = await brokers.client(await brokers.leader())
        await send(client, 0)
        assert (await subscribe(client)).code == 0
        await brokers.next_millisecond()
        await send(client, 2, 7)
        pulled = await client.pull(subscription=None, subVersion=1)
        assert bodies(pulled.body) == [b"7"]
        parked = client.pull(offset=3, subscription=None, suspend_ms=4000, subVersion=1)
        await send(client, 1, 6)
        assert bodies((await parked).body) == [b"6"]


async def test_tags_are_found_in_the_extension(make_brokers: MakeBrokers) -> None:
    async with make_brokers(queue_ext_enabled=True) as brokers:
        client = await brokers.client(await brokers.leader())
        await send(client, 1, 2, 3, 4)
        assert bodies((await client.pull(subscription="even")).body) == [b"2", b"4"]
        assert bodies((await client.pull(subscription="odd || x")).body) == [b"1", b"3"]
        ext = {"topic": "T", "queueId": 0, "index": 0, "count": 1}
        row = json.loads((await client.ask(Code.QUERY_CONSUME_QUEUE, ext)).body)["queueData"][0]
        assert row["tagsCode"] == 109871, "the hash, not the address"
        assert row["bitMap"] is None
        assert row["extendDataJson"] is not None


async def test_after_a_restart_nothing_is_missed(make_brokers: MakeBrokers) -> None:
    """Units without this process's registrations may stand behind old messages (replay)."""
    async with make_brokers(**ON) as brokers:
        client = await brokers.client(await brokers.leader())
        await subscribe(client)
        await brokers.next_millisecond()
        await send(client, 1, 7, 8)
        await brokers.stop_node(0)
        (brokers.root / "n0" / "state.ckpt").unlink()
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        await subscribe(client)
        pulled = await client.pull(expressionType="SQL92", subscription=TEXT)
        assert bodies(pulled.body) == [b"7", b"8"]


async def test_the_extension_may_be_switched_off_again(make_brokers: MakeBrokers) -> None:
    async with make_brokers(**ON) as brokers:
        client = await brokers.client(await brokers.leader())
        await send(client, 1, 2)
        await brokers.stop_node(0)
        brokers.settings = {}
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        await send(client, 3, 4)
        assert bodies((await client.pull(subscription="even")).body)[-1:] == [b"4"]
        found = bodies((await client.pull(expressionType="SQL92", subscription="a = '2'")).body)
        assert found == [b"2"]


async def test_subscriptions_are_exported(make_brokers: MakeBrokers) -> None:
    async with make_brokers(export_seconds=0.05, **ON) as brokers:
        client = await brokers.client(await brokers.leader())
        await subscribe(client, group="GroupA")
        path = brokers.root / "n0" / "config" / "consumerFilter.json"

        def exported() -> Any:
            return path.exists() and json.loads(path.read_text())["filterDataByTopic"]

        topics = await until(exported)
        bean = topics["T"]["groupFilterData"]["GroupA"]
        assert bean["expression"] == TEXT
        assert bean["bloomFilterData"]["bitNum"] == 112
        assert len(bean["bloomFilterData"]["bitPos"]) == 3
        assert bean["dead"] is False
