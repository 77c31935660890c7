"""The store of a commit on a live cluster, and the fake one held against it."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cluster.client import Client, Producer, blocking
from cluster.errors import ClusterError, IllegalOperation, InvalidRequest, OutcomeUnknown
from cluster.local.launcher import LocalCluster
from cluster.protocol.batch import encode_numbered, iterate
from cluster.protocol.json_body import MessageQueue
from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from pipeline.sink.attempt import Probe
from pipeline.sink.cluster_store import ClusterStore
from pipeline.sink.commit import Mark, commit
from pipeline.sink.items import Numbering
from pipeline.sink.options import SinkOptions, sink_options
from pipeline.sink.prepare import prepare
from pipeline.sink.staged import INLINE_BYTES_MAX, Place, Staged
from pipeline.sink.stream import Request
from pipeline.sink.task import StagingSink, TaskSink
from pipeline.sink.worker import worker

from .fake_store import FakeCluster


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return worker().loop.run_until_complete(work)


def options_of(cluster: LocalCluster, queues: int = 2) -> SinkOptions:
    topic = f"live-{uuid.uuid4().hex[:8]}"
    with blocking.connect(cluster.nameserver) as mq:
        mq.admin().create_topic(topic, queues)
    options = sink_options({"servers": cluster.nameserver, "topic": topic})
    run(prepare(worker().client(options.servers, options.client), options))
    return options


def store_of(options: SinkOptions) -> ClusterStore:
    return ClusterStore(worker().client(options.servers, options.client), options)


def bodies(options: SinkOptions) -> Counter[bytes]:
    with blocking.connect(options.servers) as mq:
        wanted = mq.admin().describe_topic(options.topic).message_count
        with mq.reader(options.topic) as reader:
            found = [reader.receive(5.0) for _ in range(wanted)]
    return Counter(message.body for message in found if message is not None)


def staged(options: SinkOptions, numbering: Numbering, rows: list[bytes]) -> Staged:
    sink = StagingSink(options, numbering)
    for at in range(0, len(rows), 1000):
        sink.add(pa.record_batch({"value": pa.array(rows[at : at + 1000], pa.binary())}))
    return sink.finish()


@pytest.mark.parametrize(("count", "size"), [(500, 10), (3000, 300)])
def test_a_batch_that_is_computed_again_in_another_order_is_stored_once(
    local_cluster: LocalCluster, count: int, size: int
) -> None:
    """Four computations, each cut and ordered anew; large ones are staged, small ones inline.

    The second driver dies while it publishes; what it had sent stays.
    """
    options, query, random = options_of(local_cluster), uuid.uuid4().hex, Random(7)
    wanted = [b"%0*d" % (size, number) for number in range(count)]
    manifests = []
    for number in range(4):
        rows = random.sample(wanted, len(wanted))
        cuts = sorted(random.sample(range(1, len(rows)), number))
        parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        tasks = []
        for partition, part in enumerate(parts):
            numbering = Numbering(query, partition, 3)
            staged(options, numbering, random.sample(part, len(part) // 2))  # it fails
            tasks.append(staged(options, numbering, part))
        assert any(task.places for task in tasks) == (size * count > INLINE_BYTES_MAX)
        store = store_of(options)
        if number == 1:
            _forget_that_it_is_done(store, query)
            store.flush = _dies  # type: ignore[method-assign]
            with pytest.raises(OutcomeUnknown):
                run(commit(store, query, 3, tasks))
            store.close()
            continue
        manifests.append(run(commit(store, query, 3, tasks)).manifest)
    assert bodies(options) == Counter(wanted)
    assert manifests[0] is not None
    assert manifests[1:] == [None, None], "nothing is sent by those that come behind the first"


def test_tasks_of_a_worker_stage_as_one_producer(
    local_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers know 10,000 producers. One for each task would push out those of queries."""
    options, found = options_of(local_cluster), set()
    real = Client.producer

    def producer(client: Client, *args: Any, **kwargs: Any) -> Producer:
        made = real(client, *args, **kwargs)
        found.add(made.producer_id)
        return made

    monkeypatch.setattr(Client, "producer", producer)
    query = uuid.uuid4().hex
    for batch in range(4):
        rows = [b"%d %s" % (batch, b"x" * 300)] * 1000
        task = staged(options, Numbering(query, 0, batch), rows)
        assert task.places
        run(commit(store_of(options), query, batch, [task]))
    assert sum(bodies(options).values()) == 4000
    assert len(found) <= 1


async def _dies() -> None:
    raise OutcomeUnknown("the driver was killed")


def _forget_that_it_is_done(store: ClusterStore, query: str) -> None:
    """As if the first driver had died before it could say so; from now on."""
    real = store.remembered

    async def remembered(query: str) -> Mark | None:
        mark = await real(query)
        return None if mark is None else mark._replace(is_done=False)

    store.remembered = remembered  # type: ignore[method-assign]


def test_a_task_of_its_own_is_refused_in_another_order(local_cluster: LocalCluster) -> None:
    options, query = options_of(local_cluster), uuid.uuid4().hex
    rows = [b"%d" % number for number in range(100)]

    def send(values: list[bytes]) -> dict[str, int]:
        sink = TaskSink(options, Numbering(query, 0, 0))
        sink.add(pa.record_batch({"value": pa.array(values, pa.binary())}))
        return sink.finish()

    assert sum(send(rows).values()) == sum(send(rows).values()) == 100
    with pytest.raises(IllegalOperation, match="other rows, or in another order"):
        send(rows[::-1])
    assert bodies(options) == Counter(rows)


def test_a_decision_falls_once_and_a_mark_only_grows(local_cluster: LocalCluster) -> None:
    options, query = options_of(local_cluster), uuid.uuid4().hex
    store = store_of(options)
    assert run(store.remembered(query)) is None
    first = run(store.decide(query, 4, b"first"))
    assert run(store_of(options).decide(query, 4, b"second")) == first

    async def read(place: Place) -> list[bytes]:
        return [data async for data in store.staged([place])]

    assert run(read(first)) == [b"first"]
    later = run(store.decide(query, 6, b"third"))
    assert later.offset > first.offset
    mark = Mark(6, later, False)
    assert run(store.remember(query, mark)) == mark
    assert run(store.remember(query, Mark(4, first, True))) == mark
    done = mark._replace(is_done=True)
    assert run(store.remember(query, done)) == done
    assert run(store_of(options).remembered(query)) == done
    with pytest.raises(OutcomeUnknown, match="is gone"):
        run(read(later._replace(offset=later.offset + 10**6)))
    with pytest.raises(ClusterError):
        run(store.decide(query, 1 << 31, b"too far"))


def test_another_staging_topic_is_refused_before_anything_is_decided(
    local_cluster: LocalCluster,
) -> None:
    """A, B, A: the brokers say where the mark is; an account that may read marks may ask them."""
    options, query = options_of(local_cluster), uuid.uuid4().hex
    other = replace(options, staging=f"other-{uuid.uuid4().hex[:8]}")
    run(prepare(worker().client(other.servers, other.client), other))
    tasks = [staged(options, Numbering(query, 0, 0), [b"row"])]
    run(commit(store_of(options), query, 0, tasks))
    later = [staged(options, Numbering(query, partition, 1), [b"later"]) for partition in (4, 9)]
    with pytest.raises(InvalidRequest, match=f'"stagingTopic", "{options.staging}"'):
        run(commit(store_of(other), query, 1, later))
    run(commit(store_of(options), query, 1, later))
    assert bodies(options) == Counter([b"row", b"later", b"later"])


def test_the_leader_is_killed_while_a_batch_is_published(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster()
    options, query = options_of(cluster), uuid.uuid4().hex
    rows = [b"%0300d" % number for number in range(9000)]
    tasks = [staged(options, Numbering(query, n, 0), rows[n::3]) for n in range(3)]
    store = store_of(options)
    real, sent = store.send, []

    async def send(queue: MessageQueue, request: Request) -> None:
        sent.append(request.count)
        if len(sent) == 8:
            leader = cluster.leader()
            assert leader is not None
            await asyncio.to_thread(cluster.kill, leader)
        await real(queue, request)

    store.send = send  # type: ignore[method-assign]
    run(commit(store, query, 0, tasks))
    assert len(sent) > 8
    assert bodies(options) == Counter(rows)


def test_the_fake_numbers_as_brokers_do(local_cluster: LocalCluster) -> None:
    """The same sends to both: stored, dropped and refused alike, and the same rows at the end."""
    options, random, fake = options_of(local_cluster, 2), Random(11), FakeCluster()
    client = worker().client(options.servers, options.client)
    route = run(client.routes.for_producing(options.topic))
    queues = list(route.write_queues(options.topic))
    producers = [f"batch/{uuid.uuid4().hex}/{number}" for number in range(2)]
    following: Counter[tuple[str, MessageQueue]] = Counter()
    kinds: Counter[str] = Counter()
    for number in range(150):
        producer, queue = random.choice(producers), random.choice(queues)
        base = following[producer, queue] + random.choice((-3, -1, 0, 0, 0, 2))
        if random.random() < 0.2:
            base = (base // BATCH_ROWS_MAX + random.randint(0, 2)) * BATCH_ROWS_MAX
        base, count = max(base, 0), random.randint(1, 4)
        is_other = base == following[producer, queue] - 1 and random.random() < 0.5
        text = b"other of %d" if is_other else b"%d"
        entries = [(None, text % (base + row), b"", None) for row in range(count)]
        body = encode_numbered(
            entries, b"__PID\x01%b\x02__SEQ\x01%%d\x02" % producer.encode(), base
        )
        try:
            fake.send(queue, list(iterate(body)))
            said = ""
            following[producer, queue] = max(following[producer, queue], base + count)
        except ClusterError as error:
            said = type(error).__name__
        try:
            run(_send(client, queue, Request(body, count, 1)))
            told = ""
        except ClusterError as error:
            told = type(error).__name__
        assert told == said, f"send {number} of {producer} at {base}"
        kinds[told] += 1
    assert set(kinds) == {"", "SequenceGap", "ProducerForgotten", "NumberUsed"}
    assert bodies(options) == Counter(row for rows in fake.rows.values() for row in rows)


async def _send(client: Client, queue: MessageQueue, request: Request) -> None:
    stream = Probe(client, queue, 30.0)
    stream.add(request)
    assert stream.work is not None
    await stream.work
