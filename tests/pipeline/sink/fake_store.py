"""A cluster in memory, as a commit sees it, with drivers that stop, die and come back.

    FakeCluster    numbers, staged messages, marks, keys: what brokers keep; and what they forget
    FakeStore      pipeline.sink.commit.Store of one driver, on it
    Driver         one commit as a coroutine, stepped by hand: each call of the store is a step

`test_live_store.py` holds the numbers against real brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Generator, Sequence
from typing import Any

from cluster.broker.kernel.write.dedup import read_numbers
from cluster.errors import (
    ClusterError,
    NumberUsed,
    OutcomeUnknown,
    ProducerForgotten,
    SendTimeout,
    SequenceGap,
)
from cluster.protocol.batch import BatchItem, iterate
from cluster.protocol.json_body import MessageQueue
from commitlog.records.producer_numbers import BATCH_PRODUCER, BATCH_ROWS_MAX
from commitlog.records.properties import find_property
from pipeline.sink.commit import Mark
from pipeline.sink.numbering import Numbering
from pipeline.sink.staged import Place
from pipeline.sink.stream import Request

BROKER, OTHER = "b", "c"
STAGING = MessageQueue("staging", BROKER, 0)
HOUR_MS = 3600 * 1000


class FakeCluster:
    """`rows`: what a reader of each queue sees, bodies in order."""

    def __init__(self, *, has_index: bool = True) -> None:
        self.has_index = has_index
        self.clock_ms = 1_000_000
        self.rows: dict[MessageQueue, list[bytes]] = defaultdict(list)
        self.epoch = 0  # counts what stopped every process for long
        self._next: dict[tuple[str, MessageQueue], int] = {}
        self._keys: dict[str, int] = {}
        self._stored: dict[tuple[str, MessageQueue], dict[int, bytes]] = defaultdict(dict)
        self.staging: list[bytes | None] = []
        self.decided: dict[tuple[str, int], int] = {}
        self.marks: dict[str, Mark] = {}

    def send(self, queue: MessageQueue, items: Sequence[BatchItem]) -> int:
        """What a broker does with numbered items; how many were there before.

        Raises SequenceGap, ProducerForgotten, NumberUsed.
        """
        producer, sequence = read_numbers(items[0].properties)
        place = producer, queue
        expected = self._next.get(place, 0)
        if sequence > expected:
            begins = sequence % BATCH_ROWS_MAX == 0 and producer.startswith(BATCH_PRODUCER)
            if not begins and not self._knows(producer, queue):
                raise ProducerForgotten(f"nothing is known of {producer}")
            if not begins:
                raise SequenceGap(f"{sequence} came and {expected} comes next")
            expected = sequence
        skip = min(expected - sequence, len(items))
        stored = self._stored[place]
        for number, item in enumerate(items[:skip], sequence):
            if stored.get(number, item.body) != item.body:
                raise NumberUsed(f"{producer} has stored another message as number {number}")
        for number, item in enumerate(items[skip:], sequence + skip):
            stored[number] = item.body
            self.rows[queue].append(item.body)
            key = (find_property(item.properties, b"UNIQ_KEY") or b"").decode()
            self._keys[key] = self.clock_ms
        self._next[place] = max(expected, sequence + len(items))
        return skip

    def next_number(self, producer: str, queue: MessageQueue) -> int | None:
        found = self._next.get((producer, queue))
        return found if found is not None or not self._knows(producer, queue) else 0

    def has_key(self, key: str) -> bool | None:
        return key in self._keys if self.has_index else None

    def stage(self, data: bytes) -> int:
        self.staging.append(data)
        return len(self.staging) - 1

    def decide(self, query: str, batch: int, record: bytes) -> int | None:
        """The record's number is one of a producer that is forgotten like any other."""
        place = f"{query}/manifest", STAGING
        if batch > self._next.get(place, -1):
            self._next[place] = batch
            self.decided[query, batch] = self.stage(record)
            return self.decided[query, batch]
        found = self.decided.get((query, batch))
        return found if found is not None and self.staging[found] is not None else None

    # -- what time does ----------------------------------------------------------------------------

    def forget(self, broker: str) -> None:
        """Many other producers came to a broker: nobody else is known any more. It took an hour."""
        self._next = {p: n for p, n in self._next.items() if p[1].broker_name != broker}
        for place in [place for place in self._stored if place[1].broker_name == broker]:
            del self._stored[place]
        self.clock_ms += HOUR_MS
        self.epoch += 1

    def forget_rows(self, broker: str) -> None:
        """As `forget`, but for the producers of manifests: another account has taken them over, so
        the broker heard them last and counts them as another owner's."""
        kept = {p: n for p, n in self._next.items() if p[0].endswith("/manifest")}
        self.forget(broker)
        self._next |= kept

    def trim(self) -> None:
        """Days went by: what is in the log goes."""
        self.clock_ms += 4 * 24 * HOUR_MS
        self.staging = [None] * len(self.staging)
        self._stored.clear()
        self._keys.clear()
        self.epoch += 1

    def move_staging(self) -> None:
        """From now on the query stages in a topic that knows nothing of it."""
        self.marks.clear()
        self.decided.clear()
        self._next = {p: n for p, n in self._next.items() if p[1] != STAGING}

    def _knows(self, producer: str, queue: MessageQueue) -> bool:
        return any(p == producer and q.broker_name == queue.broker_name for p, q in self._next)


class _Step:
    """A driver may stop here: before a request is served, and before its answer is taken."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class FakeStore:
    """`window`: requests that wait for a later step of `send` or `flush`, which delivers them."""

    def __init__(self, cluster: FakeCluster, window: int = 0) -> None:
        self._cluster, self._window = cluster, window
        self._out: list[tuple[int, MessageQueue, list[BatchItem]]] = []

    def now_ms(self) -> int:
        return self._cluster.clock_ms

    async def stage(self, data: bytes) -> Place:
        await _Step()
        return Place(BROKER, 0, self._cluster.stage(data))

    async def staged(self, places: Sequence[Place]) -> AsyncIterator[bytes]:
        for place in places:
            await _Step()
            data = self._cluster.staging[place.offset]
            if data is None:
                raise OutcomeUnknown(f"{place} is gone")
            yield data

    async def decide(self, query: str, batch: int, record: bytes) -> Place | None:
        await _Step()
        found = self._cluster.decide(query, batch, record)
        await _Step()  # the answer is on its way
        return None if found is None else Place(BROKER, 0, found)

    async def remembered(self, query: str) -> Mark | None:
        await _Step()
        found = self._cluster.marks.get(query)
        await _Step()
        return found

    async def remember(self, query: str, mark: Mark) -> Mark:
        await _Step()
        before = self._cluster.marks.get(query)
        if before is None or before < mark:
            self._cluster.marks[query] = mark
        found = self._cluster.marks[query]
        await _Step()
        return found

    async def next_number(self, queue: MessageQueue, numbering: Numbering) -> int | None:
        await _Step()
        found = self._cluster.next_number(numbering.producer, queue)
        await _Step()
        return found

    async def has_key(self, queue: MessageQueue, key: str) -> bool | None:
        await _Step()
        found = self._cluster.has_key(key)
        await _Step()
        return found

    async def send(self, queue: MessageQueue, request: Request) -> None:
        self._out.append((self._cluster.epoch, queue, list(iterate(request.body))))
        if len(self._out) > self._window:
            await self._deliver()

    async def flush(self) -> None:
        while self._out:
            await self._deliver()

    async def _deliver(self) -> None:
        await _Step()
        epoch, queue, items = self._out.pop(0)
        if epoch != self._cluster.epoch:  # as Stream does
            raise SendTimeout("this process stood still")
        self._cluster.send(queue, items)


class Driver:
    """A coroutine that is run step by step. `error`: how it ended, None when it is through."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.is_over = False
        self.error: ClusterError | None = None

    def step(self) -> None:
        """One call of the store."""
        try:
            self._work.send(None)
        except StopIteration:
            self.is_over = True
        except ClusterError as error:
            self.is_over, self.error = True, error

    def kill(self) -> None:
        """It does no further step."""
        self._work.close()
        self.is_over = True
