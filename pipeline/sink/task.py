"""One task's rows → queues. The same rows in the same order give the same requests.

    row ─► queue      column `queue`; else by the key, as all our producers do; else in turn,
                      CHUNK_ROWS at a time, beginning with the task's own number
    queue ─► numbers  rows count from 0 in each queue

    DirectSink   sends them at once: for rows that come in one order by construction (a replay),
                 and for delivery=at-least-once
    StagingSink  stages them (staged.py), for a commit to publish: any rows, in any order
    TaskSink     a batch of one task: stages, then commits

The event loop and its connections belong to the worker process and serve the tasks that follow.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cluster.errors import IllegalOperation, InvalidRequest, TopicNotFound
from cluster.protocol.json_body import MessageQueue
from pipeline.kafka.carriage import carried
from pipeline.sink.attempt import check_attempt, queue_name, take_over
from pipeline.sink.cluster_store import ClusterStore
from pipeline.sink.commit import commit, manifest_at
from pipeline.sink.items import BadRow, Numbering, as_binary, encode_items, requests_of
from pipeline.sink.options import SinkOptions
from pipeline.sink.prepare import needed_topic, prepare
from pipeline.sink.staged import (
    INLINE_BYTES_MAX,
    PART_BYTES,
    Place,
    Staged,
    encode_frame,
    parts_of,
)
from pipeline.sink.stream import Request
from pipeline.sink.streams import IN_FLIGHT_BYTES_MAX, Streams
from pipeline.sink.worker import worker

CHUNK_ROWS = 1024  # consecutive rows without a key that go to one queue: whole requests
ASKED_AT_ONCE = 32  # queues that are asked for an earlier attempt at the same time
#: The large ones with Spark's arrow.useLargeVarTypes.
_TEXTS_AND_BYTES = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
BORN = "born_timestamp"  # timestamp(us): when the row was made, instead of now


class RowSink(ABC):
    """Takes the rows of one attempt of one task. `finish` or `close` must be called.

    Raises ClusterError when the brokers refuse, BadRow for a row that cannot be sent.

    `partition`: of the task, which says with which queue rows without a key begin.
    """

    def __init__(self, options: SinkOptions, numbering: Numbering) -> None:
        self._options, self._numbering = options, numbering
        self.partition = numbering.partition
        self._worker = worker()
        self._client = self._worker.client(options.servers, options.client)
        self._queues: dict[str, list[MessageQueue]] = {}
        self._numberings: dict[str, Numbering] = {}
        self._planned: set[str] = set()
        self._rows: dict[MessageQueue, int] = {}
        self._unkeyed: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; waits while too much is on its way."""
        columns = self._meant(dict(zip(batch.schema.names, batch.columns, strict=True)))
        if "value" not in columns or (
            columns["value"].null_count and not self._options.kafka_style
        ):
            raise BadRow(
                "every row needs a value, because no message is null; fill it, or give "
                'option("schemaStyle", "kafka"), which marks such messages'
            )
        kind = columns["value"].type
        if kind not in _TEXTS_AND_BYTES:
            raise BadRow(f"value is of type {kind}; cast it to a string, or to binary")
        columns["value"] = columns["value"].cast(pa.binary())
        self._worker.loop.run_until_complete(self._add(columns, batch.num_rows))

    def _meant(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns that mean something, under our names."""
        if not self._options.kafka_style:
            return columns
        named = {name: columns[name] for name in self._options.columns if name in columns}
        if "partition" in named:
            named["queue"] = named.pop("partition")
        return named

    def close(self) -> None:
        """Cancels the requests under way, after a failure."""
        self._close()
        self._worker.loop.run_until_complete(asyncio.sleep(0))

    @abstractmethod
    def _close(self) -> None: ...

    async def _plan(self, queues: list[MessageQueue], numbering: Numbering) -> None:
        """Called before a topic's first rows if the sink chooses the queues, by their number."""
        return

    @abstractmethod
    async def _begin(self, queue: MessageQueue, numbering: Numbering) -> None:
        """Before the first request to a queue."""

    @abstractmethod
    def _put(self, queue: MessageQueue, request: Request) -> None:
        """One request, behind the former ones of its queue."""

    @abstractmethod
    async def _wait_for_space(self) -> None:
        """Wait while too much is on its way."""

    async def _add(self, columns: dict[str, Any], count: int) -> None:
        for topic, rows in self._topics(columns, count):
            mine = columns if rows is None else _take(columns, rows)
            queues = await self._queues_of(topic)
            if topic not in self._planned and not _names_all_queues(mine):
                self._planned.add(topic)
                await self._plan(queues, self._numberings[topic])
            place = self._places(topic, queues, mine)
            order = np.argsort(place, kind="stable")
            bounds = np.searchsorted(place[order], np.arange(len(queues) + 1))
            sorted_columns = mine if len(queues) == 1 else _take(mine, order)
            for number, queue in enumerate(queues):
                first, last = int(bounds[number]), int(bounds[number + 1])
                if last > first:
                    part = {n: c.slice(first, last - first) for n, c in sorted_columns.items()}
                    await self._send(queue, part, last - first)
        await self._wait_for_space()

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
        if "" in names:
            raise BadRow("a row has an empty topic; give each row the name of one")
        if self._options.staging in names:
            raise BadRow(
                f"a row goes to {self._options.staging}, where rows are staged; name another topic"
            )
        if len(names) == 1:
            return [(names[0], None)]
        return [(n, np.flatnonzero(pc.equal(column, n).to_numpy(False))) for n in names]

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        if topic not in self._queues:
            route = await needed_topic(self._client, topic, self._options)
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
        asked = columns.get("queue")
        if asked is None or asked.null_count == len(asked):
            return self._chosen(topic, queues, columns)
        if not asked.null_count:
            return self._asked(topic, queues, asked)
        if not self._options.kafka_style:
            raise BadRow("some rows have a queue and others none; give all of them one, or none")
        named = asked.is_valid().to_numpy(False)
        place = np.empty(len(asked), dtype=np.int64)
        place[named] = self._asked(topic, queues, asked.drop_null())
        free = _take(columns, np.flatnonzero(~named))
        place[~named] = self._chosen(topic, queues, free)
        return place

    def _chosen(
        self, topic: str, queues: list[MessageQueue], columns: dict[str, Any]
    ) -> NDArray[np.int64]:
        """For rows that name no queue: by their key, else in turn."""
        count = len(columns["value"])
        place = np.empty(count, dtype=np.int64)
        key = columns.get("key")
        free = np.ones(count, dtype=bool) if key is None else key.is_null().to_numpy(False)
        if key is not None:
            texts = as_binary(key).to_pylist()
            place[:] = [-1 if text is None else crc32(text) % len(queues) for text in texts]
        before = self._unkeyed.get(topic, 0)
        numbers = np.arange(before, before + int(free.sum()), dtype=np.int64)
        place[free] = (numbers // CHUNK_ROWS + self.partition) % len(queues)
        self._unkeyed[topic] = before + len(numbers)
        return place

    def _asked(self, topic: str, queues: list[MessageQueue], asked: Any) -> NDArray[np.int64]:
        first: dict[int, int] = {}
        for place, queue in enumerate(queues):
            first.setdefault(queue.queue_id, place)
        wanted = asked.to_numpy(zero_copy_only=False)
        for number in np.unique(wanted):
            if int(number) not in first:
                raise InvalidRequest(f"{topic} has no queue {number}; name one of {sorted(first)}")
        table = np.zeros(max(first) + 1, dtype=np.int64)
        table[list(first)] = list(first.values())
        found: NDArray[np.int64] = table[wanted]
        return found

    async def _send(self, queue: MessageQueue, columns: dict[str, Any], count: int) -> None:
        numbering = self._numberings[queue.topic]
        if queue not in self._rows:
            await self._begin(queue, numbering)
            self._rows[queue] = 0
        first = self._rows[queue]
        if self._options.kafka_style:
            columns = carried(columns)
        items = encode_items(columns, numbering, queue_name(queue), first)
        self._rows[queue] = first + count
        born = columns.get(BORN)
        if born is None:
            now_ms = int(time.time() * 1000)
            for number, body in requests_of(items):
                self._put(queue, Request(body, number, now_ms))
            return
        times = born.cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
        at = 0
        for number, body in requests_of(items, times):
            self._put(queue, Request(body, number, int(times[at])))
            at += number


class DirectSink(RowSink):
    """Sends rows as they come. Each is stored once if every attempt has the same rows in the same
    order, and no two attempts run at once; the caller must know that. With delivery=at-least-once,
    and a query id drawn anew for each attempt, it needs no such condition.
    """

    def __init__(self, options: SinkOptions, numbering: Numbering) -> None:
        super().__init__(options, numbering)
        self._streams = Streams(self._client, options.seconds_max)
        self._begun: set[MessageQueue] = set()

    def finish(self) -> dict[str, int]:
        """Wait until all rows are stored; rows per queue."""
        self._worker.loop.run_until_complete(self._streams.flush())
        return {queue_name(queue): rows for queue, rows in self._rows.items()}

    def _close(self) -> None:
        self._streams.close()

    async def _plan(self, queues: list[MessageQueue], numbering: Numbering) -> None:
        """Ask every queue for an earlier attempt with another number of queues, before any row.

        Asked queue by queue, a topic that grew would take rows into its new queues, where nothing
        is known of them, while the same rows stand in the old ones.
        """
        if self._options.is_exactly_once:
            for first in range(0, len(queues), ASKED_AT_ONCE):
                some = queues[first : first + ASKED_AT_ONCE]
                await asyncio.gather(*(self._begin(queue, numbering) for queue in some))

    async def _begin(self, queue: MessageQueue, numbering: Numbering) -> None:
        if queue in self._begun:
            return
        self._begun.add(queue)
        options = self._options
        if options.take_over:
            await take_over(self._client, queue, numbering.producer, options.seconds_max)
        if options.is_exactly_once:
            await check_attempt(self._client, queue, numbering, options.seconds_max)

    def _put(self, queue: MessageQueue, request: Request) -> None:
        self._streams.add(queue, request)

    async def _wait_for_space(self) -> None:
        await self._streams.wait_for_space()


class StagingSink(RowSink):
    """Stages rows; they are not visible until a commit publishes the result of `finish`."""

    def __init__(self, options: SinkOptions, numbering: Numbering) -> None:
        super().__init__(options, numbering)
        self.store = ClusterStore(self._client, options, self._worker.idle)
        self._attempt = secrets.token_hex(8)
        self._digest = blake2b(digest_size=16)
        self._frames: list[bytes] = []
        self._size = 0
        self._staging: list[asyncio.Task[Place]] = []

    def finish(self) -> Staged:
        """Waits until all rows are staged. Returns the commit's input."""
        return self._worker.loop.run_until_complete(self._finish())

    def _close(self) -> None:
        for task in self._staging:
            task.cancel()
        self.store.close()

    async def _finish(self) -> Staged:
        inline = b""
        if not self._staging and self._size <= INLINE_BYTES_MAX:
            inline = b"".join(self._frames)
        else:
            self._stage()
        places = tuple(await asyncio.gather(*self._staging))
        self.store.release()
        return Staged(
            self.partition,
            self._attempt,
            {queue_name(queue): rows for queue, rows in self._rows.items()},
            places,
            inline,
            self._digest.hexdigest(),
        )

    async def _begin(self, queue: MessageQueue, numbering: Numbering) -> None:
        """Has no effect: staging sends no rows to the queue, so its numbers need no check."""

    def _put(self, queue: MessageQueue, request: Request) -> None:
        frame = encode_frame(queue, request)
        self._digest.update(f"{queue_name(queue)} {len(request.body)} ".encode())
        self._digest.update(request.body)
        self._frames.append(frame)
        self._size += len(frame)

    async def _wait_for_space(self) -> None:
        if self._size > PART_BYTES:
            self._stage()
        while True:  # ends when few parts are on their way, or when one fails
            for task in self._staging:
                if task.done():
                    task.result()
            left = [task for task in self._staging if not task.done()]
            if len(left) * PART_BYTES < IN_FLIGHT_BYTES_MAX:
                return
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)

    def _stage(self) -> None:
        data = b"".join(self._frames)
        self._frames, self._size = [], 0
        self._staging += [asyncio.ensure_future(self.store.stage(part)) for part in parts_of(data)]


class TaskSink(StagingSink):
    """A batch of one task: `finish` publishes its rows as the batch, and later attempts must have
    equal rows.

    Raises IllegalOperation when the batch was published before with other rows, or in another
    order; nothing is sent then.
    """

    def __init__(self, options: SinkOptions, numbering: Numbering) -> None:
        super().__init__(options, numbering)
        self._worker.loop.run_until_complete(prepare(self._client, options))

    def finish(self) -> dict[str, int]:  # type: ignore[override]  # it is through, not staged
        """Wait until all rows are stored; rows per queue."""
        return self._worker.loop.run_until_complete(self._commit())

    async def _commit(self) -> dict[str, int]:
        ours, number = await self._finish(), self._numbering
        found = await commit(self.store, number.query, number.batch, [ours])
        manifest = found.manifest or await manifest_at(self.store, found.mark.place)
        (theirs,) = manifest.tasks
        if theirs.digest != ours.digest:
            raise IllegalOperation(
                f"batch {number.batch} of {number.query} was published before with other rows, or "
                f"in another order ({sum(theirs.rows.values())} rows then, "
                f"{sum(ours.rows.values())} now); nothing was sent: give these another batch"
            )
        return ours.rows


def _names_all_queues(columns: dict[str, Any]) -> bool:
    """True if every row names its queue."""
    asked = columns.get("queue")
    return asked is not None and not asked.null_count


def _take(columns: dict[str, Any], rows: NDArray[np.int64]) -> dict[str, Any]:
    places = pa.array(rows)
    return {name: column.take(places) for name, column in columns.items()}
