"""One node end to end: send, pull, offsets, restart."""

from __future__ import annotations

from cluster.protocol.codes import RequestCode
from commitlog.records.message import decode_message

from .conftest import MakeBrokers


async def test_a_sent_message_is_pulled(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        sent = await client.send(body=b"hello", properties="TAGS\x01TagA\x02KEYS\x01k1\x02")
        assert sent.code == 0, sent.remark
        assert sent.ext["queueOffset"] == "0"
        assert len(sent.ext["msgId"]) == 32
        pulled = await client.pull()
        assert pulled.code == 0, pulled.remark
        assert pulled.ext["nextBeginOffset"] == "1"
        message = decode_message(pulled.body)
        assert (message.topic, message.body, message.tags) == ("T", b"hello", "TagA")
        assert message.properties["CLUSTER"] == "DefaultCluster"
        assert message.unique_key is not None
        assert int(sent.ext["msgId"][16:], 16) == message.physical_offset


async def test_offsets_and_messages_survive_a_restart(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for number in range(5):
            assert (await client.send(body=b"%d" % number)).code == 0
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 3}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0
        await brokers.stop_node(0)
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        found = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        assert found.ext["offset"] == "3"
        pulled = await client.pull(offset=3)
        assert pulled.code == 0, pulled.remark
        assert decode_message(pulled.body).body == b"3"
        assert pulled.ext["maxOffset"] == "5"
        assert (await client.send()).ext["queueOffset"] == "5"
