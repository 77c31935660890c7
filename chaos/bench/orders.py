"""Our own client as a program: orders a line, as those of other brokers (scripts/bench messages).

Modes of `send`:

    single         one request each, callbacks (`cluster/bench/load.py`)
    batching       the client puts what waits together into batches, callbacks
    tasks          WINDOW tasks, each `await producer.send(…)` in a loop, one request each
    tasks-batching the same with a client that batches

Modes of `consume`: `each` is `async for message in reader`, `list` is `reader.receive_many`. The
client checks the CRC of every body.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import cluster as dledger_cluster
from cluster.bench.disk import percentile
from cluster.bench.load import BODIES_COUNT, FullLoad, random_bodies
from cluster.client import Client, ClientConfig, Producer, ProducerConfig, ReceivedMessage
from cluster.errors import ClusterError
from dledger.runtime import loop

FILL_WINDOW, LIST_COUNT = 1024, 1024
READ_SECONDS_MAX = 60.0
# On a loaded machine a stall is no sign of a dead leader.
CONFIG = ClientConfig(stall_timeout=2.0, request_timeout=10.0)


async def serve() -> None:
    """Answer orders until "stop" or the end of the input."""
    client: Client | None = None
    answer: dict[str, Any] = {}
    while True:  # ends with "stop" or the input
        print(json.dumps(answer), flush=True)
        words = (await asyncio.to_thread(sys.stdin.readline)).split()
        if not words or words[0] == "stop":
            break
        try:
            if client is None:
                client = dledger_cluster.connect(words[1], CONFIG)
            answer = await _answer(client, words)
        except (ClusterError, AssertionError) as error:
            answer = {"error": repr(error)}
    if client is not None:
        await client.close()


async def _answer(client: Client, words: list[str]) -> dict[str, Any]:
    if words[0] == "open":
        async with client.producer() as producer:
            await producer.send(words[2], bytes(16), key="first")
        return {}
    if words[0] == "send":
        window, size, millis = (int(word) for word in words[3:6])
        return await _send(client, words[1], words[2], window, size, millis / 1e3)
    if words[0] == "fill":
        return await _fill(client, words[1], int(words[2]), int(words[3]))
    return await _consume(client, words[1], words[2], int(words[3]))


async def _send(
    client: Client, mode: str, topic: str, window: int, size: int, seconds: float
) -> dict[str, Any]:
    config = ProducerConfig(in_flight_max=window, batching=mode.endswith("batching"))
    async with client.producer(config=config) as producer:
        await producer.open_topic(topic)
        if mode.startswith("tasks"):
            return await _tasks(producer, topic, window, size, seconds)
        load = FullLoad(producer, topic, window, size, lenient=True)
        passed = await load.run(seconds)
        return _told(load.latencies, passed, load.failed, load.error)


async def _tasks(
    producer: Producer, topic: str, window: int, size: int, seconds: float
) -> dict[str, Any]:
    bodies, latencies, errors = random_bodies(size), list[float](), list[ClusterError]()
    began = time.perf_counter()

    async def one(number: int) -> None:
        while (sent_at := time.perf_counter()) - began < seconds:
            number += 1
            try:
                await producer.send(topic, bodies[number % BODIES_COUNT])
            except ClusterError as error:
                errors.append(error)
                await asyncio.sleep(0)  # one that failed at once leaves the others their turn
            else:
                latencies.append(time.perf_counter() - sent_at)

    await asyncio.gather(*(one(number) for number in range(window)))
    passed = time.perf_counter() - began
    return _told(latencies, passed, len(errors), repr(errors[-1]) if errors else "")


def _told(latencies: list[float], seconds: float, failed: int, error: str) -> dict[str, Any]:
    ordered = sorted(latencies)
    return {
        "acked": len(ordered),
        "failed": failed,
        "seconds": seconds,
        "p50_ms": percentile(ordered, 0.5) * 1e3 if ordered else 0.0,
        "p99_ms": percentile(ordered, 0.99) * 1e3 if ordered else 0.0,
        "error": error,
    }


async def _fill(client: Client, topic: str, count: int, size: int) -> dict[str, Any]:
    bodies, began = random_bodies(size), time.perf_counter()
    config = ProducerConfig(batching=True)
    async with client.producer(config=config) as producer:
        for start in range(0, count, FILL_WINDOW):
            numbers = range(start, min(start + FILL_WINDOW, count))
            await asyncio.gather(
                *(
                    producer.send(topic, bodies[number % BODIES_COUNT], key=f"key-{number}")
                    for number in numbers
                )
            )
    return {"acked": count, "failed": 0, "seconds": time.perf_counter() - began}


class _Reading:
    """Reads each message as an application does; the clock runs from the first to the last."""

    def __init__(self) -> None:
        self.count = self.size = 0
        self.began = 0.0

    def read(self, messages: Iterable[ReceivedMessage]) -> None:
        """Body, key and offset of each."""
        self.began = self.began or time.perf_counter()
        for message in messages:
            assert message.keys, "each message was sent with a key"
            assert message.queue_offset >= 0
            self.size += len(message.body)
            self.count += 1


async def _consume(client: Client, mode: str, topic: str, count: int) -> dict[str, Any]:
    reading = _Reading()
    async with client.reader(topic) as reader:
        if mode == "each":
            async for message in reader:
                reading.read((message,))
                if reading.count == count:
                    break
        while reading.count < count:
            messages = await reader.receive_many(LIST_COUNT, READ_SECONDS_MAX)
            assert messages, f"{reading.count} of {count} came"
            reading.read(messages)
        passed = time.perf_counter() - reading.began
    return {"messages": reading.count, "bytes": reading.size, "seconds": passed}


if __name__ == "__main__":
    loop.run(serve())
