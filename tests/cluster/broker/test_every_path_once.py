"""No request path commits anything twice when a producer with an id asks again (R8).

Every way in × the same leader, a follower, the next leader: the same answer, one record in the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from commitlog.records.batch import BatchItem, encode_client_batch

from .conftest import MakeBrokers
from .harness import OWN, RawClient

Send = Callable[[RawClient, bytes, str], Awaitable[Frame]]
"""(client, body, properties with the producer's id and number)."""

LATER = str(int(time.time() * 1000) + 3_600_000)
OWN_ID = "UNIQ_KEY\x01" + "A" * 32 + "\x02"


def plain(properties: str = "", topic: str = "T", **more: object) -> Send:
    def send(client: RawClient, body: bytes, numbers: str) -> Awaitable[Frame]:
        return client.send(topic, body, properties=numbers + properties, **more)

    return send


def batch(client: RawClient, body: bytes, numbers: str) -> Awaitable[Frame]:
    items = [BatchItem(0, body, numbers.encode())]
    return client.send(body=encode_client_batch(items), code=RequestCode.SEND_BATCH_MESSAGE)


def with_long_names(client: RawClient, body: bytes, numbers: str) -> Awaitable[Frame]:
    ext = {
        "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
        "queueId": 0, "sysFlag": 0, "bornTimestamp": 1700000000123, "flag": 0,
        "properties": numbers, "reconsumeTimes": 0, "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return client.ask(RequestCode.SEND_MESSAGE, ext, body)


def reply(client: RawClient, body: bytes, numbers: str) -> Awaitable[Frame]:
    nobody = f"{numbers}REPLY_TO_CLIENT\x01nobody\x02CORRELATION_ID\x01c\x02CLUSTER\x01c\x02"
    return client.send("T", body, properties=nobody, code=RequestCode.SEND_REPLY_MESSAGE_V2)


PATHS: dict[str, Send] = {
    "310": plain(),
    "310 of our own producer": plain(OWN_ID),
    "10": with_long_names,
    "320": batch,
    "a delay level": plain("DELAY\x0118\x02"),
    "a timer": plain(f"TIMER_DELIVER_MS\x01{LATER}\x02"),
    "a half": plain("TRAN_MSG\x01true\x02PGROUP\x01PG\x02", f=4),
    "a consumer's own retry": plain(topic="%RETRY%CG", f=0),
    "a reply": reply,
}


BODY = b"<body of %b>"
NUMBERS = "__PID\x01p%d\x02__SEQ\x010\x02"  # a producer of its own for each path


def told(answer: Frame) -> tuple[object, ...]:
    """Code and place; a reply's code tells of its push."""
    return answer.code, answer.ext.get("queueOffset"), answer.ext.get("msgId", "")[16:]


def times_in_log(node: BrokerNode, body: bytes) -> int:
    """How often the bytes stand in the node's files."""
    folder = node.config.root / f"dledger-{node.config.node_id}" / "data"
    return sum(file.read_bytes().count(body) for file in folder.iterdir())


@pytest.mark.parametrize("how", [{}, OWN], ids=["json", "own"])
async def test_asked_again_it_is_stored_once(make_brokers: MakeBrokers, how: dict) -> None:
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        first = await brokers.client(leader, **how)
        other = await brokers.client(follower, **how)
        answers = {}
        for number, (name, send) in enumerate(PATHS.items()):
            body, numbers = BODY % name.encode(), NUMBERS % number
            answers[name] = await send(first, body, numbers)
            for again in await asyncio.gather(
                send(first, body, numbers), send(other, body, numbers)
            ):
                assert told(again) == told(answers[name]), name
        await brokers.stop_node(int(leader.config.node_id[1:]))
        second = await brokers.leader()
        client = await brokers.client(second, **how)
        for number, (name, send) in enumerate(PATHS.items()):
            again = await send(client, BODY % name.encode(), NUMBERS % number)
            assert told(again) == told(answers[name]), name
        times = {name: times_in_log(second, BODY % name.encode()) for name in PATHS}
        assert times == dict.fromkeys(PATHS, 1)
