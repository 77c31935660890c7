"""Topics that sends create by themselves have a rate and a total; an administrator's have not."""

from __future__ import annotations

from cluster.protocol.codes import RequestCode, ResponseCode

from .conftest import MakeBrokers


async def test_topics_created_too_fast_are_refused_as_busy(make_brokers: MakeBrokers) -> None:
    async with make_brokers(auto_create_topics_per_second=1e-6) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(topic="First")).code == 0
        refused = await client.send(topic="Second")
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "too many topics are created by sends; pause, then send again" in refused.remark
        assert (await client.send(topic="First")).code == 0


async def test_sends_to_one_new_topic_count_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers(auto_create_topics_per_second=1e-6) as brokers:
        client = await brokers.client(await brokers.leader())
        answers = [client.send(topic="First") for _ in range(20)]
        assert {(await answer).code for answer in answers} == {0}


async def test_total_of_topics_ends_creation_by_sends_only(make_brokers: MakeBrokers) -> None:
    async with make_brokers(auto_create_topics_max=1) as brokers:
        client = await brokers.client(await brokers.leader())
        refused = await client.send(topic="One-too-many")
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        assert "auto_create_topics_max" in refused.remark
        created = await client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {
                "topic": "By-hand", "defaultTopic": "TBW102", "readQueueNums": "1",
                "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0", "order": "false",
            },
        )  # fmt: skip
        assert created.code == 0
        assert (await client.send(topic="By-hand")).code == 0
