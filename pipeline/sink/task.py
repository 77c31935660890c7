"""One task's rows → queues. The same rows in the same order give the same requests.

    row ─► queue      column `queue`; else by the key, as all our producers do; else in turn,
                      CHUNK_ROWS at a time, beginning with the task's own number
    queue ─► numbers  rows count from 0 in each queue

The event loop and its connections belong to the worker process and serve the tasks that follow.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cluster.client import Client, ClientConfig, connect
from cluster.errors import InvalidRequest, TopicNotFound
from cluster.protocol.json_body import MessageQueue
from pipeline.sink.attempt import check_attempt, queue_name
from pipeline.sink.items import BadRow, Numbering, as_binary, encode_items, requests_of
from pipeline.sink.options import SinkOptions
from pipeline.sink.stream import Request, Stream

CHUNK_ROWS = 1024  # consecutive rows without a key that go to one queue: whole requests
BORN = "born_timestamp"  # timestamp(us): when the row was made, instead of now
IN_FLIGHT_BYTES_MAX = 16 << 20  # of one task: above it, rows are not taken until answers came


class Worker:
    """The event loop of this process, and a client of each cluster that its tasks write to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._clients: dict[tuple[str, ClientConfig], Client] = {}

    def client(self, servers: str, config: ClientConfig) -> Client:
        key = (servers, config)
        if key not in self._clients:
            self._clients[key] = self.loop.run_until_complete(_connect(servers, config))
        return self._clients[key]

    def close(self) -> None:
        """At the end of the process."""
        for client in self._clients.values():
            self.loop.run_until_complete(client.close())
        self._clients.clear()
        self.loop.close()


_worker: list[Worker] = []


def worker() -> Worker:
    """This process's; Spark forks its workers before any task runs in them."""
    if not _worker:
        _worker.append(Worker())
        atexit.register(_worker[0].close)
    return _worker[0]


async def _connect(servers: str, config: ClientConfig) -> Client:
    return connect(servers, config)


class TaskSink:
    """Sends the rows of one attempt of one task. `finish` or `close` must be called.

    Raises ClusterError when the brokers refuse, BadRow for a row that cannot be sent.
    """

    def __init__(self, options: SinkOptions, numbering: Numbering) -> None:
        self._options, self._numbering = options, numbering
        self._worker = worker()
        self._client = self._worker.client(options.servers, options.client)
        self._queues: dict[str, list[MessageQueue]] = {}
        self._numberings: dict[str, Numbering] = {}
        self._streams: dict[MessageQueue, Stream] = {}
        self._rows: dict[MessageQueue, int] = {}
        self._unkeyed: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; waits while too much is on its way."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if "value" not in columns or columns["value"].null_count:
            raise BadRow("every row needs a value; a null cannot be sent")
        kind = columns["value"].type
        if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
            raise BadRow(f"value is of type {kind}; cast it to a string, or to binary")
        columns["value"] = columns["value"].cast(pa.binary())
        self._worker.loop.run_until_complete(self._add(columns, batch.num_rows))

    def finish(self) -> dict[str, int]:
        """Wait until all rows are stored; rows per queue."""
        self._worker.loop.run_until_complete(self._until_below(1))
        return {queue_name(queue): stream.acked for queue, stream in self._streams.items()}

    def close(self) -> None:
        """After a failure: forget what is on its way."""
        for stream in self._streams.values():
            stream.close()
        self._worker.loop.run_until_complete(asyncio.sleep(0))

    async def _add(self, columns: dict[str, Any], count: int) -> None:
        for topic, rows in self._topics(columns, count):
            mine = columns if rows is None else _take(columns, rows)
            queues = await self._queues_of(topic)
            place = self._places(topic, queues, mine)
            order = np.argsort(place, kind="stable")
            bounds = np.searchsorted(place[order], np.arange(len(queues) + 1))
            sorted_columns = mine if len(queues) == 1 else _take(mine, order)
            for number, queue in enumerate(queues):
                first, last = int(bounds[number]), int(bounds[number + 1])
                if last > first:
                    part = {n: c.slice(first, last - first) for n, c in sorted_columns.items()}
                    await self._send(queue, part, last - first)
        await self._until_below(IN_FLIGHT_BYTES_MAX)

    def _topics(
        self, columns: dict[str, Any], count: int
    ) -> list[tuple[str, NDArray[np.int64] | None]]:
        """Each topic with its rows; None for all of them."""
        if self._options.topic:
            return [(self._options.topic, None)]
        column = columns.get("topic")
        if column is None or column.null_count:
            raise BadRow('a row has no topic; give it a column "topic" or option("topic", …)')
        names = sorted(column.unique().to_pylist())
        if len(names) == 1:
            return [(names[0], None)]
        return [(n, np.flatnonzero(pc.equal(column, n).to_numpy(False))) for n in names]

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        if topic not in self._queues:
            route = await self._client.routes.for_producing(topic)
            found = list(route.write_queues(topic))
            if not found:
                raise TopicNotFound(f"no queue of {topic} can be written to now")
            self._queues[topic] = found
            plan = f"{self._numbering.plan}{len(found)}"
            self._numberings[topic] = Numbering(
                self._numbering.query, self._numbering.partition, self._numbering.batch, plan
            )
        return self._queues[topic]

    def _places(
        self, topic: str, queues: list[MessageQueue], columns: dict[str, Any]
    ) -> NDArray[np.int64]:
        """Place in `queues` for every row."""
        count = len(columns["value"])
        asked = columns.get("queue")
        if asked is not None and asked.null_count < count:
            return self._asked(topic, queues, asked)
        place = np.empty(count, dtype=np.int64)
        key = columns.get("key")
        free = np.ones(count, dtype=bool) if key is None else key.is_null().to_numpy(False)
        if key is not None:
            texts = as_binary(key).to_pylist()
            place[:] = [-1 if text is None else crc32(text) % len(queues) for text in texts]
        before = self._unkeyed.get(topic, 0)
        numbers = np.arange(before, before + int(free.sum()), dtype=np.int64)
        place[free] = (numbers // CHUNK_ROWS + self._numbering.partition) % len(queues)
        self._unkeyed[topic] = before + len(numbers)
        return place

    def _asked(self, topic: str, queues: list[MessageQueue], asked: Any) -> NDArray[np.int64]:
        if asked.null_count:
            raise BadRow("some rows have a queue and others none; give all of them one, or none")
        first: dict[int, int] = {}
        for place, queue in enumerate(queues):
            first.setdefault(queue.queue_id, place)
        wanted = asked.to_numpy(zero_copy_only=False)
        for number in np.unique(wanted):
            if int(number) not in first:
                raise InvalidRequest(f"{topic} has no queue {number}; they are {sorted(first)}")
        table = np.zeros(max(first) + 1, dtype=np.int64)
        table[list(first)] = list(first.values())
        found: NDArray[np.int64] = table[wanted]
        return found

    async def _send(self, queue: MessageQueue, columns: dict[str, Any], count: int) -> None:
        numbering = self._numberings[queue.topic]
        stream = self._streams.get(queue)
        if stream is None:
            if self._options.is_exactly_once:
                await check_attempt(self._client, queue, numbering, self._options.seconds_max)
            stream = Stream(self._client, queue, self._options.seconds_max)
            self._streams[queue], self._rows[queue] = stream, 0
        first = self._rows[queue]
        items = encode_items(columns, numbering, queue_name(queue), first)
        self._rows[queue] = first + count
        born = columns.get(BORN)
        if born is None:
            now_ms = int(time.time() * 1000)
            for number, body in requests_of(items):
                stream.add(Request(body, number, now_ms))
            return
        times = born.cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
        at = 0
        for number, body in requests_of(items, times):
            stream.add(Request(body, number, int(times[at])))
            at += number

    async def _until_below(self, bytes_max: int) -> None:
        """Let answers come until less is on its way. Raises what a stream failed with."""
        while True:  # ends when the streams are done, or when one fails
            works = [stream.work for stream in self._streams.values() if stream.work is not None]
            for work in works:
                if work.done():
                    work.result()
            left = [work for work in works if not work.done()]
            if not left or sum(s.bytes_left for s in self._streams.values()) < bytes_max:
                return
            await asyncio.wait(left, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)


def _take(columns: dict[str, Any], rows: NDArray[np.int64]) -> dict[str, Any]:
    places = pa.array(rows)
    return {name: column.take(places) for name, column in columns.items()}
