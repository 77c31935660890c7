"""Commits a batch: exactly one attempt of each task becomes visible, whichever steps are repeated.

    tasks     stage rows, numbered; nobody sees them                   attempts may be many, and
                                                                       differ in rows and order
    driver 1  decides: a manifest names one attempt of each task.      the first one written wins
           2  remembers, beside the log, which manifest it is          goes forward only
           3  publishes the manifest's rows under their numbers        brokers store each once
           4  remembers that all are published

The promise depends on neither order nor partitioning: a batch that is computed again, by a later
driver, with other rows or other tasks, finds the manifest of the first one and publishes that one.
What may happen, and why rows are neither lost nor doubled then:

a task fails, is repeated, runs twice       only the attempt that Spark names is in the manifest
the driver dies before 1                    nothing is published; what was staged is nobody's
between 1 and 2                             the number of the manifest's record is taken: a later
                                            one is dropped by the broker, which says where the
                                            first is. Has it forgotten, nothing was published yet,
                                            and the later one counts
between 2 and 4                             the later driver is led to the same manifest; row
                                            numbers that are stored are dropped. When the broker
                                            may have forgotten them, `OutcomeUnknown` or
                                            `ProducerForgotten` ends the query
after 4                                     nothing is sent
another topic than the batch was decided    two queries have one checkpoint: the second is refused
for
another stagingTopic, or no broker that     refused before anything is decided: other brokers know
keeps the mark is to be found               where the mark is (home.py). Where none of those is left
                                            that were told, a row number of the batch that is known
                                            to a broker ends it (`_refuse_begun`)
a driver that was thought dead goes on      it has the same manifest, thus the same numbers; when a
                                            later batch has begun, it is refused. After a minute
                                            (LEASE_MS) it asks again before it sends more

Memory: brokers know the 10,000 latest producers of a week, and the log goes back three days by
default. Step 2 is kept without end, so that forgetting is noticed. A broker that says where the
record of a manifest is knows its producer, so it has forgotten none that it heard later, which are
all that sent the batch's rows. That fails after `takeOver`, which the broker hears as well: then
it may know the manifest's producer alone. So every broker is asked for each queue (`_check`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from cluster.errors import InvalidRequest, NotFound, OutcomeUnknown, ProducerForgotten
from cluster.protocol.batch import iterate
from cluster.protocol.json_body import MessageQueue
from commitlog.records.properties import find_property
from pipeline.sink.numbering import PRODUCERS_OF_A_WRITE, Numbering
from pipeline.sink.staged import (
    RECORD_BYTES_MAX,
    Frames,
    Manifest,
    Parcel,
    Place,
    Staged,
    decode_manifest,
    encode_manifest,
    encode_pointer,
    parts_of,
    pointer_of,
)
from pipeline.sink.stream import Request

#: A first row that is not in the key index was never stored, or is gone with the oldest files.
#: Logs keep days (72 hours by default); behind half a day nobody can tell.
TRUSTED_MS = 12 * 3600 * 1000


#: After so long without asking, a driver asks whether another one has taken its place. Brokers
#: cannot forget in that time: that would need 10,000 new producers.
LEASE_MS = 60_000


class Mark(NamedTuple):
    """The stored mark of a query: its latest batch with rows that may be visible.

    `place`: of that batch's manifest; `is_done`: all its rows are stored.
    """

    batch: int
    place: Place
    is_done: bool


class Store(Protocol):
    """The operations of the cluster that a commit needs. Every method may raise ClusterError."""

    def now_ms(self) -> int:
        """This driver's clock."""
        ...

    async def stage(self, data: bytes) -> Place:
        """Stores bytes that are not read until a manifest names them; possibly more than once."""
        ...

    def staged(self, places: Sequence[Place]) -> AsyncIterator[bytes]:
        """Yields the bytes staged at `places`, in order. Raises OutcomeUnknown if some are gone."""
        ...

    async def decide(self, query: str, batch: int, record: bytes) -> Place | None:
        """Stores `record` for the batch unless the batch has one. Returns the place of the batch's
        record; None if there is one, or one of a later batch, and its place is unknown.
        """
        ...

    async def remembered(self, query: str) -> Mark | None:
        """The latest mark of the query."""
        ...

    async def remember(self, query: str, mark: Mark) -> Mark:
        """Keep the mark unless there is a later one; the latest."""
        ...

    async def next_number(self, queue: MessageQueue, numbering: Numbering) -> int | None:
        """Returns the number that the broker expects next; None if it does not know the
        producer.
        """
        ...

    async def has_key(self, queue: MessageQueue, key: str) -> bool | None:
        """True if a message with that key is in the topic; None if the broker cannot tell."""
        ...

    async def send(self, queue: MessageQueue, request: Request) -> None:
        """Sends the request after the earlier ones of the same queue; waits for space only."""
        ...

    async def flush(self) -> None:
        """Wait until all that was sent is stored."""
        ...


class Committed(NamedTuple):
    """A batch of which every row is stored. `manifest`: None when it was so before."""

    mark: Mark
    manifest: Manifest | None


async def commit(
    store: Store, query: str, batch: int, tasks: Sequence[Staged], topic: str = ""
) -> Committed:
    """Publish the batch, as `tasks` or as an earlier commit of it decided.

    `topic`: all rows of the query go there; "" for a query whose rows name their topics.

    Raises InvalidRequest for a batch that the query has left behind, and for one that was decided
    for another topic; OutcomeUnknown (and
    ProducerForgotten) when nobody can tell what is published; other ClusterErrors, after which
    the commit may be repeated.
    """
    record = await _record(store, Manifest(query, batch, store.now_ms(), tuple(tasks)))
    claim = _Claim(store, query, batch, record, tasks)
    if not await claim.take():
        if topic:
            with contextlib.suppress(OutcomeUnknown):  # it is gone with the oldest files
                _refuse_elsewhere(await manifest_at(store, claim.mark.place), topic)
        return Committed(claim.mark, None)
    manifest = await manifest_at(store, claim.mark.place)
    if (manifest.query, manifest.batch) != (query, batch):
        raise OutcomeUnknown(
            f"the record at {claim.mark.place} belongs to batch {manifest.batch} of query "
            f"{manifest.query}, not to batch {batch} of {query}: the staging topic was made anew; "
            "take out the batch's rows by hand, then start with a new checkpoint"
        )
    _refuse_elsewhere(manifest, topic)
    if await _publish(store, manifest, claim):
        claim.mark = await store.remember(query, claim.mark._replace(is_done=True))
    return Committed(claim.mark, manifest)


def _refuse_elsewhere(manifest: Manifest, topic: str) -> None:
    """Raises InvalidRequest if the batch was decided for another topic than this query's.

    Queries with one checkpoint, or a copy of it, have one id: the second to come would find each
    batch decided, and its own rows would be nowhere.
    """
    topics = {_queue_of(name).topic for task in manifest.tasks for name in task.rows}
    if topic and (others := sorted(topics - {topic})):
        raise InvalidRequest(
            f"batch {manifest.batch} of query {manifest.query} was decided for the topic "
            f"{others[0]}, and this query writes to {topic}: two queries have one checkpoint, or "
            "copies of it; give this one a checkpointLocation of its own, or, if it is the same "
            f"query, let it write to {others[0]} until the batch is over"
        )


async def publish(store: Store, query: str, tasks: Sequence[Staged]) -> None:
    """Publishes a batch that will never be repeated, because its query's id was drawn for it
    alone. Its rows are numbered as `Numbering.of_a_write` says.

    A producer's next task waits until the former one is stored: its row 0 may follow any number, so
    a broker that has refused what was sent before would take that for repeats later.
    """
    tasks = sorted(tasks, key=lambda task: task.partition)
    for _, some in groupby(tasks, lambda task: task.partition // PRODUCERS_OF_A_WRITE):
        await _publish(store, Manifest(query, 0, store.now_ms(), tuple(some)), None)


async def _record(store: Store, manifest: Manifest) -> bytes:
    data = encode_manifest(manifest)
    if len(data) <= RECORD_BYTES_MAX:
        return data
    return encode_pointer([await store.stage(part) for part in parts_of(data)])


async def manifest_at(store: Store, place: Place) -> Manifest:
    """Reads the manifest of a batch. Raises OutcomeUnknown if it is gone."""
    record = await _bytes(store, [place])
    parts = pointer_of(record)
    return decode_manifest(record if parts is None else await _bytes(store, parts))


async def _bytes(store: Store, places: Sequence[Place]) -> bytes:
    return b"".join([data async for data in store.staged(places)])


class _Claim:
    """One driver's right to publish a batch, which it must check again after LEASE_MS.

    `mark`: of the batch; `was_begun`: maybe some of the batch is published already.
    """

    def __init__(
        self, store: Store, query: str, batch: int, record: bytes, tasks: Sequence[Staged]
    ) -> None:
        self._store, self._query, self._batch, self._record = store, query, batch, record
        self._tasks = tasks
        self._asked_ms = 0
        self.mark: Mark
        self.was_begun = False

    @property
    def is_over(self) -> bool:
        """Must it be taken again before more is sent?"""
        return self._store.now_ms() - self._asked_ms > LEASE_MS

    async def take(self) -> bool:
        """Is there anything to publish? Raises as `commit`."""
        self._asked_ms = self._store.now_ms()
        place = await self._store.decide(self._query, self._batch, self._record)
        self.mark = await self._marked(place)
        if self.mark.is_done:
            return False
        if self.mark.place != place:
            raise OutcomeUnknown(
                f"some of batch {self._batch} of query {self._query} may be published, and the "
                "broker has forgotten which: 10,000 other producers came, or a week went by; take "
                "out its rows by hand, then start with a new checkpoint"
            )
        return True

    async def _marked(self, place: Place | None) -> Mark:
        """The batch's mark, made if need be."""
        mark = await self._store.remembered(self._query)
        if mark is None or mark.batch < self._batch:
            if place is None:
                raise NotFound(
                    f"what batch {self._batch} of query {self._query} consists of was decided, and "
                    "is gone from the log; nothing of the batch is in a topic: start with a new "
                    "checkpoint"
                )
            if mark is None or mark.batch < self._batch - 1:
                await self._refuse_begun()
            mark = await self._store.remember(self._query, Mark(self._batch, place, False))
        else:
            self.was_begun = True
        if mark.batch > self._batch:
            raise InvalidRequest(
                f"batch {self._batch} of query {self._query} is older than what the topics have "
                f"from it (batch {mark.batch}); another run of the query goes on: stop one of them"
            )
        return mark

    async def _refuse_begun(self) -> None:
        """Raises OutcomeUnknown if rows of the batch are stored and no mark names their manifest.

        A mark is stored before rows are published, so it must be elsewhere: the query had another
        staging topic, or the broker that keeps the mark cannot be found. Other rows under the same
        numbers would be dropped.
        """
        for task in self._tasks:
            numbering = Numbering(self._query, task.partition, self._batch)
            for name in task.rows:
                queue = _queue_of(name)
                following = await self._store.next_number(queue, numbering)
                if following is None or following <= numbering.sequence(0):
                    continue
                mark = await self._store.remembered(self._query)
                if mark is not None and mark.batch >= self._batch:
                    return  # another driver has begun it meanwhile
                raise OutcomeUnknown(
                    f"some of batch {self._batch} of query {self._query} is in {name}, and the "
                    "staging topic does not tell which of its rows: the query had another "
                    "stagingTopic, or the broker that kept its mark is away; restore it, or take "
                    "out the batch's rows by hand and start with a new checkpoint"
                )


def _queue_of(name: str) -> MessageQueue:
    """Inverse of `attempt.queue_name`."""
    topic, _, rest = name.partition("/")
    broker, _, queue_id = rest.rpartition("/")
    return MessageQueue(topic, broker, int(queue_id))


async def _publish(store: Store, manifest: Manifest, claim: _Claim | None) -> bool:
    """Send every row, and wait until all are stored. False: another driver has done it.

    `claim`: None when no other driver can.
    """
    for task in manifest.tasks:
        numbering = Numbering(manifest.query, task.partition, manifest.batch)
        begun: set[MessageQueue] = set()
        async for parcel in _parcels(store, task):
            asks = claim is not None
            while claim is not None and asks:  # ends when the answers came within the lease
                if claim.is_over and not await claim.take():
                    return False
                if claim.was_begun and parcel.queue not in begun:
                    await _check(store, manifest, numbering, parcel, claim.mark.place.broker)
                asks = claim.is_over
            begun.add(parcel.queue)
            await store.send(*parcel)
    await store.flush()
    return True


async def _parcels(store: Store, task: Staged) -> AsyncIterator[Parcel]:
    frames = Frames()
    for parcel in frames.feed(task.inline):
        yield parcel
    async for data in store.staged(task.places):
        for parcel in frames.feed(data):
            yield parcel
    frames.end()


async def _check(
    store: Store, manifest: Manifest, numbering: Numbering, first: Parcel, sure: str
) -> None:
    """May row 0 be sent to the queue again? Not when the broker could store it twice.

    The broker knows the producer: it drops what it has. It does not: either nothing of the batch
    is in the queue, or it has forgotten; the first row's key tells, as long as the log goes back.

    `sure`: the broker that says where the manifest is. Without the key it has stored nothing.
    """
    if await store.next_number(first.queue, numbering) is not None:
        return
    found = await store.has_key(first.queue, _key(first.request))
    if not found and first.queue.broker_name == sure:
        return
    if found is False and store.now_ms() - manifest.made_ms <= TRUSTED_MS:
        return
    if found and await store.next_number(first.queue, numbering) is not None:
        return  # another driver has begun the queue between the two questions
    what = "is in part" if found else "may be in part"
    raise ProducerForgotten(
        f"batch {manifest.batch} of query {manifest.query} {what} in {first.queue.topic}, queue "
        f"{first.queue.queue_id} of {first.queue.broker_name}, and the broker has forgotten how "
        "much of it; take out its rows by hand and start with a new checkpoint, or let it be "
        'doubled with option("delivery", "at-least-once") and without txnAppId'
    )


def _key(request: Request) -> str:
    """UNIQ_KEY of the first row."""
    item = next(iterate(request.body))
    return (find_property(item.properties, b"UNIQ_KEY") or b"").decode()
