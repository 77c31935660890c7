"""What a refusal of the broker means to a consumer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.config import ConsumerConfig
from cluster.client.consumer.queue_reader import QueueReader, ReadAhead, ReaderContext
from cluster.client.consumer.ready_readers import ReadyReaders
from cluster.errors import Unauthorized
from cluster.protocol.frames import Frame
from cluster.protocol.headers import PullResponse, encode
from cluster.protocol.heartbeat import Subscription
from cluster.protocol.json_body import MessageQueue
from commitlog.records.message import Message, encode_message


def test_a_consumer_that_was_served_waits_for_a_paused_group() -> None:
    """An operator switches the group off and on again; no process has to be started anew."""
    ready = ReadyReaders(None, lambda: None)
    ready.refuse(Unauthorized("account orders has no SUB of topic other"))
    assert isinstance(ready.refusal, Unauthorized)
    ready.refuse(None)
    assert ready.refusal is None, "the right was given"
    ready.refuse(Unauthorized("group G may not consume now"))
    assert ready.refusal is None


@pytest.mark.parametrize("turns", range(6))
async def test_an_answer_that_comes_while_its_queue_is_taken_away_is_not_handed_out(
    turns: int,
) -> None:
    """`turns` of the loop lie between the answer and the stop."""
    answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()

    asked = asyncio.Event()

    async def call(*_: object, **__: object) -> Frame:
        asked.set()
        return await answer

    async def connection(*_: object, **__: object) -> Any:
        return SimpleNamespace(call=call, address="x")

    instance: Any = SimpleNamespace(
        leaders=SimpleNamespace(connection=connection), config=SimpleNamespace(request_timeout=1)
    )
    ready = ReadyReaders(None, lambda: None)
    context = ReaderContext(
        instance,
        "g",
        ConsumerConfig(),
        _NoOffsets(),
        ReadAhead(1 << 20, lambda: None),
        ready.add,
        lambda _: None,
    )
    reader = QueueReader(context, MessageQueue("T", "b", 0), Subscription("T", "*"))
    await asked.wait()
    found = PullResponse(next_begin_offset=1, min_offset=0, max_offset=1)
    record = bytes(encode_message(Message("T", b"x", queue_id=0)))
    answer.set_result(Frame(0, 1, encode(found), record))
    for _ in range(turns):
        await asyncio.sleep(0)
    reader.halt()
    ready.remove(reader)
    await asyncio.gather(reader.stop())
    assert not ready


class _NoOffsets:
    """A queue begins at 0, and its offset takes a turn to store."""

    async def find(self, _: MessageQueue) -> int:
        return 0

    async def store(self, _: MessageQueue, __: int) -> None:
        await asyncio.sleep(0)
