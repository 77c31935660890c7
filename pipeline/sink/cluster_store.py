"""The store of a commit: a topic of the cluster itself, reachable by every executor.

    staging topic, any queue       parts of staged rows: plain messages, maybe stored twice
    staging topic, queue 0         records of manifests: each batch has one number, which the
                                   broker stores once
    offset of the query's group    the query's mark: batch · 2^32 + offset of the record · 2 + done.
    in queue 0                     Brokers keep it without end, and only let it grow

Queue 0 is that of one broker name, the query's home (home.py).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Sequence
from zlib import crc32

from cluster.client import Client, Durability, Producer, ProducerConfig
from cluster.errors import (
    ClusterError,
    InvalidRequest,
    NumberUsed,
    OutcomeUnknown,
    TopicNotFound,
)
from cluster.protocol.batch import encode_numbered, iterate
from cluster.protocol.codes import RequestCode, ResponseCode, exception_for
from cluster.protocol.frames import Frame
from cluster.protocol.headers import (
    PULL_FLAG_SUBSCRIPTION,
    PullRequest,
    encode,
)
from cluster.protocol.json_body import MessageQueue
from commitlog.queues.tag_filter import ALL
from commitlog.records.message import decode_message
from commitlog.records.producer_numbers import BATCH_PRODUCER, BATCH_ROWS_MAX
from commitlog.records.properties import find_property
from pipeline.sink.attempt import has_key, next_number, take_over
from pipeline.sink.commit import Mark
from pipeline.sink.home import find_home
from pipeline.sink.kept import KeptOffsets
from pipeline.sink.numbering import Numbering
from pipeline.sink.options import MARKS, SinkOptions
from pipeline.sink.staged import PART_BYTES, Place
from pipeline.sink.stream import Request, Stream
from pipeline.sink.streams import Streams

AHEAD_PARTS = 8  # read while one is published
BATCHES_MAX = 1 << 31  # of a query, in its mark
_OFFSETS_MAX = 1 << 31
_GONE = int(ResponseCode.PULL_OFFSET_MOVED)
_LAGS = int(ResponseCode.PULL_NOT_FOUND)
#: Stands for a query's id in what is asked before one runs.
ASKED_BEFORE = "ASKED_BEFORE"


Idle = dict[tuple[Client, float], Producer]


class ClusterStore:
    """See pipeline.sink.commit.Store. One per attempt or commit; `close` after a failure.

    `idle`: staging producers that earlier stores of this process left. Brokers know 10,000
    producers, which include those of queries, so a task must not take a new one.
    """

    def __init__(self, client: Client, options: SinkOptions, idle: Idle | None = None) -> None:
        self._client, self._topic = client, options.staging
        self._idle: Idle = {} if idle is None else idle
        self._seconds_max = options.seconds_max
        self._streams = Streams(client, options.seconds_max)
        self._producer: Producer | None = None
        self._kept = KeptOffsets(client, options.staging, options.seconds_max)
        self._home: str | None = None
        self._takes_over = options.take_over
        self._taken: set[tuple[str, str]] = set()  # broker, producer id

    def now_ms(self) -> int:
        """This driver's clock."""
        return int(time.time() * 1000)

    def close(self) -> None:
        """Cancels the requests under way and ends the producer."""
        self._streams.close()
        if self._producer is not None:
            self._producer.abandon()
            self._producer = None

    def release(self) -> None:
        """Leaves the staging producer to a later store; all is staged, no staging may follow."""
        if self._producer is not None:
            left = self._idle.setdefault((self._client, self._seconds_max), self._producer)
            if left is not self._producer:
                self._producer.abandon()
            self._producer = None

    # -- staged bytes ------------------------------------------------------------------------------

    async def stage(self, data: bytes) -> Place:
        """A message of the staging topic, on a majority's disks."""
        if self._producer is None:
            self._producer = self._idle.pop((self._client, self._seconds_max), None)
        if self._producer is None:
            durable = Durability.MAJORITY_ON_DISK
            config = ProducerConfig(delivery_timeout=self._seconds_max, durability=durable)
            self._producer = self._client.producer(config=config)
        for _ in range(3):  # a repeat whose original is lost has no place: once more
            receipt = await self._producer.send(self._topic, data)
            if receipt.queue_offset >= 0:
                queue = receipt.queue
                return Place(queue.broker_name, queue.queue_id, receipt.queue_offset)
        raise OutcomeUnknown(f"{self._topic} does not tell where it stores; start the query again")

    async def staged(self, places: Sequence[Place]) -> AsyncIterator[bytes]:
        """The messages, read ahead."""
        waiting, coming = deque(places), deque[asyncio.Task[bytes]]()
        try:
            while waiting or coming:
                while waiting and len(coming) < AHEAD_PARTS:
                    coming.append(asyncio.ensure_future(self._read(waiting.popleft())))
                yield await coming.popleft()
        finally:
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)

    async def _read(self, place: Place) -> bytes:
        queue = MessageQueue(self._topic, place.broker, place.queue_id)
        request = PullRequest(
            f"{MARKS}READER", queue.topic, queue.queue_id, place.offset, 1, PULL_FLAG_SUBSCRIPTION,
            0, 0, 0, ALL, "TAG", 8 * PART_BYTES, bname=queue.broker_name,
        )  # fmt: skip
        ends_at = time.monotonic() + self._seconds_max
        while True:  # ends with an answer, or with the deadline
            answer = await self._pull(queue, encode(request))
            if answer.code == 0:
                stored = decode_message(answer.body)
                if stored.queue_offset == place.offset:
                    return stored.body
            if answer.code != _LAGS or time.monotonic() > ends_at:
                raise OutcomeUnknown(
                    f"{place} of the staging topic {self._topic} is gone: its log keeps less than "
                    "the time that the query stood still, or the topic was made anew; look which "
                    "rows of the batch are published, then start with a new checkpoint"
                )
            await asyncio.sleep(self._client.config.retry_pause)

    async def _pull(self, queue: MessageQueue, ext: dict[str, str]) -> Frame:
        ends_at, look = time.monotonic() + self._seconds_max, False
        while True:  # ends with an answer, or with the deadline
            try:
                connection = await self._client.leaders.connection(
                    queue.broker_name, queue.topic, look=look
                )
                limit = self._client.config.request_timeout
                answer = await connection.call(RequestCode.PULL_MESSAGE, ext, time_limit=limit)
                if answer.code in (0, _LAGS, _GONE):
                    return answer
                if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
                    return answer._replace(code=_LAGS)
                raise exception_for(answer.code, answer.remark, answer.ext)
            except ClusterError as error:
                if not error.retriable or time.monotonic() > ends_at:
                    raise
            look = True
            await asyncio.sleep(self._client.config.retry_pause)

    # -- decisions ---------------------------------------------------------------------------------

    async def decide(self, query: str, batch: int, record: bytes) -> Place | None:
        """Stores the batch's record under one number per batch: a broker refuses a second record
        with that number, and tells the place of the first."""
        if batch >= BATCHES_MAX:
            raise InvalidRequest(f"batch {batch} is beyond {BATCHES_MAX}; use another txnAppId")
        queue = MessageQueue(self._topic, await self._home_of(query), 0)
        prefix = b"__PID\x01%b%b/manifest\x02__SEQ\x01%%d\x02" % (
            BATCH_PRODUCER.encode(),
            query.replace("-", "").encode(),
        )
        key = f"UNIQ_KEY\x01{crc32(query.encode()):08x}{batch:024x}\x02".encode()
        body = encode_numbered([(None, record, key, None)], prefix, batch * BATCH_ROWS_MAX)
        await self._take_over(queue, body)
        deciding = Stream(self._client, queue, self._seconds_max, on_disk=True)
        deciding.add(Request(body, 1, self.now_ms()))
        assert deciding.work is not None
        try:
            await deciding.work
            offset = deciding.offset
        except NumberUsed as first:
            offset = first.queue_offset
        return None if offset < 0 else Place(queue.broker_name, 0, offset)

    async def remembered(self, query: str) -> Mark | None:
        """As the query's home has it."""
        home = await self._home_of(query)
        value = await self._kept.get(MARKS + query, home)
        return None if value is None else _mark_of(value, home)

    async def remember(self, query: str, mark: Mark) -> Mark:
        """At the query's home, when its log has it."""
        home = await self._home_of(query)
        assert mark.place.broker == home, "a batch is decided at the query's home"
        if mark.place.offset >= _OFFSETS_MAX:
            raise InvalidRequest(
                f"{self._topic} is full; name another one by stagingTopic, with a new checkpoint"
            )
        value = mark.batch << 32 | mark.place.offset << 1 | mark.is_done
        return _mark_of(await self._kept.keep(MARKS + query, home, value), home)

    async def _home_of(self, query: str) -> str:
        if self._home is None:
            self._home = await find_home(self._kept, query, self._topic)
        return self._home

    async def check_rights(self) -> None:
        """Raises Unauthorized for an account that may not read marks."""
        await self._kept.get(MARKS + ASKED_BEFORE, await self._any_broker())

    async def _any_broker(self) -> str:
        queues = (await self._client.routes.for_producing(self._topic)).write_queues(self._topic)
        if not queues:
            raise TopicNotFound(f"no queue of {self._topic} can be written to now; start again")
        return queues[0].broker_name

    # -- rows --------------------------------------------------------------------------------------

    async def next_number(self, queue: MessageQueue, numbering: Numbering) -> int | None:
        """As attempt.py asks."""
        await self._take_over_id(queue, numbering.producer)
        return await next_number(self._client, queue, numbering, self._seconds_max)

    async def numbers_producers(self) -> bool:
        """Does the staging topic's broker number messages? Those of Apache RocketMQ do not.

        They store a repeat a second time, and store the question. One that does refuses it.
        """
        queue = MessageQueue(self._topic, await self._any_broker(), 0)
        numbering = Numbering(uuid.uuid4().hex, 0, 0)
        return await next_number(self._client, queue, numbering, self._seconds_max) is None

    async def has_key(self, queue: MessageQueue, key: str) -> bool | None:
        """As attempt.py asks."""
        return await has_key(self._client, queue, key, self._seconds_max)

    async def send(self, queue: MessageQueue, request: Request) -> None:
        """To its stream."""
        await self._take_over(queue, request.body)
        self._streams.add(queue, request)
        await self._streams.wait_for_space()

    async def _take_over(self, queue: MessageQueue, body: bytes) -> None:
        """Takes over the id of the producer that numbers the rows in `body`, once for each
        broker.
        """
        if self._takes_over:
            found = find_property(next(iterate(body)).properties, b"__PID") or b""
            await self._take_over_id(queue, found.decode())

    async def _take_over_id(self, queue: MessageQueue, producer: str) -> None:
        place = queue.broker_name, producer
        if self._takes_over and place not in self._taken:
            await take_over(self._client, queue, producer, self._seconds_max)
            self._taken.add(place)

    async def flush(self) -> None:
        """Until all streams are through."""
        await self._streams.flush()


def _mark_of(value: int, home: str) -> Mark:
    return Mark(value >> 32, Place(home, 0, value >> 1 & (_OFFSETS_MAX - 1)), bool(value & 1))
