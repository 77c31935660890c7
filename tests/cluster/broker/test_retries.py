"""Messages that come back (36), retry and dead-letter topics; recall of timers (370)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.recall_headers import read_recall_handle, recall_handle
from commitlog.records.message import Message, decode_message

from .conftest import MakeBrokers
from .harness import RawClient, handled, nothing_is_appended, until

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LOCK = b'{"consumerGroup":"CG","clientId":"c","mqSet":[{"topic":"T","brokerName":"broker-a",'
LOCK += b'"queueId":0}]}'


def position_of(answer: Frame) -> int:
    return int(answer.ext["msgId"].partition(",")[0][16:], 16)


def send_back(client: RawClient, position: int, level: int = 0, **more: Any) -> Any:
    ext = {"offset": position, "group": "CG", "delayLevel": level, **more}
    return client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext)


async def one(client: RawClient, topic: str, queue: int = 0, offset: int = 0) -> Message:
    """The message there, once it is."""

    async def look() -> Message | None:
        answer = await client.pull(topic=topic, queue=queue, offset=offset, suspend_ms=300)
        return decode_message(answer.body) if answer.code == 0 else None

    found: Message = await until(look, f"message {offset} of {topic}")
    return found


async def test_a_message_comes_back_again_and_again_and_is_dead_then(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        sent = await client.send(
            body=b"bad", properties="TAGS\x01A\x02__PID\x01p\x02__SEQ\x010\x02"
        )
        assert (await client.heartbeat()).code == 0
        origin, position = sent.ext["msgId"], position_of(sent)
        for tried in range(2):
            answer = await send_back(client, position, 1, maxReconsumeTimes=2)
            assert answer.code == 0, answer.remark
            again = await one(client, "%RETRY%CG", offset=tried)
            assert (again.body, again.reconsume_times, again.tags) == (b"bad", tried + 1, "A")
            assert again.properties["RETRY_TOPIC"] == "T"
            assert again.properties["ORIGIN_MESSAGE_ID"] == origin
            assert again.properties["REAL_TOPIC"] == "%RETRY%CG"
            assert "__PID" not in again.properties
            position = again.physical_offset
        assert (await send_back(client, position, 1, maxReconsumeTimes=2)).code == 0
        dead = await one(client, "%DLQ%CG")
        assert (dead.body, dead.reconsume_times) == (b"bad", 3)
        assert dead.properties["DLQ_ORIGIN_TOPIC"] == "T"
        assert dead.properties["DLQ_ORIGIN_MESSAGE_ID"] == origin
        assert dead.prepared_transaction_offset == 0


@pytest.mark.parametrize(
    ("tried", "asked", "queue"), [(0, 0, 2), (2, 0, 4), (0, 7, 6), (0, 99, 17)]
)
async def test_levels(make_brokers: MakeBrokers, tried: int, asked: int, queue: int) -> None:
    """0 asks for the broker's own: level 3 and one more each time."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        position = position_of(await client.send(j=tried))
        assert (await send_back(client, position, asked)).code == 0
        parked = await one(client, SCHEDULE, queue)
        assert parked.properties["DELAY"] == str(queue + 1)
        assert parked.properties["REAL_TOPIC"] == "%RETRY%CG"


async def test_a_client_may_give_a_message_up_at_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        position = position_of(await client.send(body=b"hopeless"))
        assert (await send_back(client, position, -1)).code == 0
        assert (await one(client, "%DLQ%CG")).body == b"hopeless"


async def test_what_cannot_come_back(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        position = position_of(await client.send())
        for ext, code in (
            ({"offset": position + 1}, 1),
            ({"offset": 1 << 50}, 1),
            ({"offset": -1}, 1),
            ({"offset": 48}, 1),  # the log's first record, the leader's own
            ({"group": "bad group"}, 29),
            ({"group": ""}, 29),
            ({"group": "g" * 121}, 29),
        ):
            answer = await send_back(client, position, **ext)
            assert answer.code == code, (ext, answer.code, answer.remark)
            assert answer.remark
        missing = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": 1})
        assert missing.code != 0


async def test_a_groups_own_number_of_retries(make_brokers: MakeBrokers) -> None:
    """Unless the client asks for another one, which must be a number of times."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        bean = json.dumps({"groupName": "CG", "retryMaxTimes": 0}).encode()
        assert (await client.ask(code, body=bean)).code == 0
        position = position_of(await client.send(body=b"bad"))
        state = leader.parts.state
        for asked, dead in ((None, 1), (-1, 2), (1, 2)):
            more = {} if asked is None else {"maxReconsumeTimes": asked}
            assert (await send_back(client, position, **more)).code == 0
            await until(lambda dead=dead: state.queue_ends("%DLQ%CG", 1) == [dead])
        await until(lambda: len(state.delayed) == 1)


async def test_without_auto_creation_the_group_must_exist(make_brokers: MakeBrokers) -> None:
    async with make_brokers(auto_create_groups=False) as brokers:
        client = await brokers.client(await brokers.leader())
        position = position_of(await client.send())
        assert (await send_back(client, position)).code == 26


async def test_a_consumers_own_way_to_the_retry_topic(make_brokers: MakeBrokers) -> None:
    """What it sends there waits, or is dead once it was tried more often than allowed."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        retry = {"topic": "%RETRY%CG", "properties": "DELAY\x011\x02RETRY_TOPIC\x01T\x02"}
        assert (await client.send(body=b"again", j=2, l=2, **retry)).code == 0
        assert (await client.send(body=b"dead", j=3, l=2, **retry)).code == 0
        dead = await one(client, "%DLQ%CG")
        assert (dead.body, dead.properties["DELAY"]) == (b"dead", "0")
        again = await one(client, "%RETRY%CG")
        assert (again.body, again.reconsume_times) == (b"again", 2)


async def test_what_an_ordered_group_gives_up_is_dead(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send()).code == 0
        assert (await client.ask(RequestCode.LOCK_BATCH_MQ, body=LOCK)).code == 0
        answer = await client.send(topic="%RETRY%CG", body=b"stuck", properties="DELAY\x013\x02")
        assert answer.code == 0
        assert (await one(client, "%DLQ%CG")).body == b"stuck"


async def test_a_follower_passes_it_on(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        position = position_of(await client.send(body=b"bad"))
        assert (await send_back(client, position, 1)).code == 0
        assert (await one(client, "%RETRY%CG")).body == b"bad"


# -- recall


async def timer(client: RawClient, key: str, delay_ms: int = 600) -> Frame:
    answer = await client.send(
        body=key.encode(), properties=f"UNIQ_KEY\x01{key}\x02TIMER_DELAY_MS\x01{delay_ms}\x02"
    )
    assert answer.code == 0
    return answer


def recall(client: RawClient, handle: str, topic: str = "T") -> Any:
    ext = {"producerGroup": "PG", "topic": topic, "recallHandle": handle}
    return client.ask(RequestCode.RECALL_MESSAGE, ext)


async def test_a_recalled_timer_never_comes(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        answers = [await timer(client, f"K{number}") for number in range(4)]
        for answer in answers[::2]:
            done = await recall(client, answer.ext["recallHandle"])
            assert done.code == 0, done.remark
            assert done.ext["msgId"] == answer.ext["transactionId"]
        twice = await recall(client, answers[0].ext["recallHandle"])
        assert twice.code == 604, "recalled already"
        await until(lambda: len(leader.parts.state.delayed) == 0)
        assert (await one(client, "T")).body == b"K1"
        assert (await one(client, "T", offset=1)).body == b"K3"
        late = await recall(client, answers[1].ext["recallHandle"])
        assert late.code == 604, "delivered already"


async def test_of_two_recalls_at_once_one_counts(make_brokers: MakeBrokers) -> None:
    """Both find the message waiting: the second one is asked before the first is applied."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        handle = (await timer(client, "K", 60_000)).ext["recallHandle"]
        with nothing_is_appended(leader):
            recalls = [recall(client, handle), recall(client, handle)]
            await handled(client)
        answers = await asyncio.gather(*recalls)
        assert sorted(answer.code for answer in answers) == [0, 604]
        state = leader.parts.state
        assert state.queue_ends("rmq_sys_dledger_outcomes", 1) == [1]
        assert len(state.delayed) == 0


async def test_recalls_that_cannot_be(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        await timer(client, "K")
        for handle, topic, code in (
            ("?", "T", 29),
            ("", "T", 29),
            (recall_handle("U", "broker-a", 1, "K"), "T", 29),
            (recall_handle("T", "broker-b", 1, "K"), "T", 29),
            (recall_handle("T", "broker-a", 1, "other"), "T", 604),
            (recall_handle("U", "broker-a", 1, "K"), "U", 604),
        ):
            answer = await recall(client, handle, topic)
            assert answer.code == code, (handle, answer.remark)
            assert answer.remark


def test_recall_handles() -> None:
    assert read_recall_handle(recall_handle("T", "b", 17, "K")) == ("T", "b", 17, "K")
    for bad in ("v1", "djIgVCBiIDE3IEs=", "djEgVCBiIHggSw==", "\udcff"):
        with pytest.raises(InvalidRequest):
            read_recall_handle(bad)
