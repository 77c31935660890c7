"""Requests of several producers to one queue leave in the order in which they were added."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from cluster.protocol.json_body import MessageQueue
from cluster.protocol.send_own import SendResult
from pipeline.sink.stream import WINDOW, Request
from pipeline.sink.streams import Streams

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))


class Connection:
    """Answers each request in the next turn of the event loop."""

    address = "127.0.0.1:10911"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.unanswered = self.unanswered_most = 0

    def post_send(
        self, encoder: Any, properties: bytes, body: bytes, born_ms: int, waiter: Any
    ) -> None:
        self.sent.append(body)
        self.unanswered += 1
        self.unanswered_most = max(self.unanswered_most, self.unanswered)
        asyncio.get_running_loop().call_soon(self._answer, waiter)

    def _answer(self, waiter: Any) -> None:
        self.unanswered -= 1
        waiter.answered(SendResult(0, 0, len(self.sent), 0, 0, 0))


def client_of(connection: Connection) -> Any:
    async def find(broker: str, topic: str, *, look: bool) -> Connection:
        return connection

    config = SimpleNamespace(request_timeout=5.0, retry_pause=0.01)
    return SimpleNamespace(leaders=SimpleNamespace(connection=find), config=config)


async def _sent(requests: list[tuple[MessageQueue, bytes]]) -> Connection:
    connection = Connection()
    streams = Streams(client_of(connection), 5.0)
    for queue, body in requests:
        streams.add(queue, Request(body, 1, 0))
    await streams.flush()
    return connection


def test_a_queue_gets_the_rows_of_one_task_after_those_of_the_other() -> None:
    bodies = [b"task %d, request %d" % (task, number) for task in range(2) for number in range(9)]
    found = asyncio.run(_sent([(FIRST, body) for body in bodies]))
    assert found.sent == bodies
    assert found.unanswered_most == WINDOW


def test_queues_do_not_wait_for_each_other() -> None:
    found = asyncio.run(_sent([(q, b"%d" % q.queue_id) for q in [FIRST] * 9 + [SECOND] * 9]))
    assert found.sent[: 2 * WINDOW] == [b"0"] * WINDOW + [b"1"] * WINDOW
    assert found.unanswered_most == 2 * WINDOW
