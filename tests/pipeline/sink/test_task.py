"""What a task sends, to a cluster of three: in order, once, whatever is tried again."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from cluster.client import blocking
from cluster.client.message import ReceivedMessage
from cluster.errors import ClusterError, InvalidRequest, ProducerForgotten
from cluster.local.launcher import LocalCluster
from cluster.local.profile import BROKER
from pipeline.sink import attempt, worker
from pipeline.sink.items import BadRow, Numbering
from pipeline.sink.options import STAGING, SinkOptions, sink_options
from pipeline.sink.task import CHUNK_ROWS, DirectSink, TaskSink
from tests.waiting import limit, wait_until

Rows = pa.RecordBatch


def rows_of(count: int, first: int = 0, **columns: list[Any]) -> Rows:
    values = [b"%d" % number for number in range(first, first + count)]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **columns})


def send(
    options: SinkOptions,
    numbering: Numbering,
    *batches: Rows,
    kind: type[DirectSink] | type[TaskSink] = TaskSink,
) -> dict[str, int]:
    sink = kind(options, numbering)
    try:
        for batch in batches:
            sink.add(batch)
        return sink.finish()
    except BaseException:
        sink.close()
        raise


def read(cluster: LocalCluster, topic: str) -> list[ReceivedMessage]:
    with blocking.connect(cluster.nameserver) as mq:
        wanted = mq.admin().describe_topic(topic).message_count
        with mq.reader(topic) as reader:
            found = [reader.receive(limit(30)) for _ in range(wanted)]
    return [message for message in found if message is not None]


def create(cluster: LocalCluster, queues: int) -> tuple[str, SinkOptions]:
    topic = f"sink-{uuid.uuid4().hex[:8]}"
    with blocking.connect(cluster.nameserver) as mq:
        mq.admin().create_topic(topic, queues)
    return topic, sink_options({"servers": cluster.nameserver, "topic": topic})


def numbering(batch: int = 0, partition: int = 0) -> Numbering:
    return Numbering(str(uuid.uuid4()), partition, batch)


def test_rows_arrive_with_all_they_have(local_cluster: LocalCluster) -> None:
    topic, options = create(local_cluster, 4)
    keys = [f"k{n % 7}" if n % 2 else None for n in range(20)]
    tags = [None, "red"] * 10
    headers = [[{"key": "colour", "value": b"blue"}]] * 20
    batch = rows_of(20, key=keys, tags=tags, headers=headers)
    counts = send(options, numbering(), batch)
    assert sum(counts.values()) == 20
    found = {m.body: m for m in read(local_cluster, topic)}
    assert len(found) == 20
    for n in range(20):
        message = found[b"%d" % n]
        assert message.keys == ([keys[n]] if keys[n] else [])
        assert message.tags == tags[n]
        assert message.properties["colour"] == "blue"
        assert len(message.message_id) == 32
        if keys[n]:
            assert message.queue.queue_id == crc32(str(keys[n]).encode()) % 4


@pytest.mark.parametrize(
    ("wrong", "said"), [("", "has an empty topic"), (STAGING, "where rows are staged")]
)
def test_topics_that_no_row_may_name(local_cluster: LocalCluster, wrong: str, said: str) -> None:
    topic, _ = create(local_cluster, 1)
    options = sink_options({"servers": local_cluster.nameserver})
    with pytest.raises(BadRow, match=said):
        send(options, numbering(), rows_of(2, topic=[topic, wrong]))
    assert read(local_cluster, topic) == []


def test_rows_without_a_key_stay_in_order_within_chunks(local_cluster: LocalCluster) -> None:
    topic, options = create(local_cluster, 2)
    count = 2 * CHUNK_ROWS + 10
    send(options, numbering(partition=1), rows_of(1500), rows_of(count - 1500, 1500))
    queues: dict[int, list[int]] = {0: [], 1: []}
    for message in read(local_cluster, topic):
        queues[message.queue.queue_id].append(int(message.body))
    assert queues[1] == [*range(CHUNK_ROWS), *range(2 * CHUNK_ROWS, count)]
    assert queues[0] == list(range(CHUNK_ROWS, 2 * CHUNK_ROWS))


def test_topic_and_queue_can_be_columns(local_cluster: LocalCluster) -> None:
    first, options = create(local_cluster, 3)
    second, _ = create(local_cluster, 3)
    topics = [first, second] * 5
    queues = pa.array([n % 3 for n in range(10)], pa.int32())
    free = sink_options({"servers": options.servers})
    send(free, numbering(), rows_of(10, topic=topics, queue=queues))
    for place, topic in enumerate((first, second)):
        found = {int(m.body): m.queue.queue_id for m in read(local_cluster, topic)}
        assert found == {n: n % 3 for n in range(place, 10, 2)}
    wrong = rows_of(1, topic=[first], queue=pa.array([9], pa.int32()))
    with pytest.raises(InvalidRequest, match="no queue 9"):
        send(free, numbering(), wrong)
    with pytest.raises(BadRow, match="no topic"):
        send(free, numbering(), rows_of(1))
    with pytest.raises(BadRow, match="null"):
        send(
            options,
            numbering(),
            pa.RecordBatch.from_pydict({"value": pa.array([None], pa.binary())}),
        )


@pytest.mark.parametrize("kind", [DirectSink, TaskSink])
def test_what_is_tried_again_is_stored_once(
    local_cluster: LocalCluster, kind: type[DirectSink] | type[TaskSink]
) -> None:
    """Whole and half attempts, batch after batch, with the delivery that is the default."""
    topic, options = create(local_cluster, 2)
    number = numbering()
    for batch in range(0, 6, 2):
        now = Numbering(number.query, 0, batch)
        rows = [rows_of(1500, batch * 10_000), rows_of(700, batch * 10_000 + 1500)]
        half = kind(options, now)
        half.add(rows[0])
        half.close()
        for _ in range(2):
            counts = send(options, now, *rows, kind=kind)
            assert sum(counts.values()) == 2200
    bodies = Counter(int(m.body) for m in read(local_cluster, topic))
    assert set(bodies.values()) == {1}
    assert sorted(bodies) == [b * 10_000 + n for b in (0, 2, 4) for n in range(2200)]


def test_at_least_once_sends_again(local_cluster: LocalCluster) -> None:
    topic, options = create(local_cluster, 1)
    again = sink_options({"servers": options.servers, "topic": topic, "delivery": "at-least-once"})
    for _ in range(2):
        send(again, worker.worker().fresh_numbering(), rows_of(5), kind=DirectSink)
    assert sorted(Counter(m.body for m in read(local_cluster, topic)).values()) == [2] * 5


@pytest.mark.parametrize("kind", [DirectSink, TaskSink])
def test_an_attempt_of_an_older_batch_is_refused(
    local_cluster: LocalCluster, kind: type[DirectSink] | type[TaskSink]
) -> None:
    topic, options = create(local_cluster, 1)
    number = numbering(5)
    send(options, number, rows_of(3), kind=kind)
    send(options, Numbering(number.query, 0, 6), rows_of(3), kind=kind)
    with pytest.raises(InvalidRequest, match="older than what"):
        send(options, number, rows_of(3), kind=kind)
    assert len(read(local_cluster, topic)) == 6


def test_an_attempt_that_is_planned_otherwise_is_refused(
    local_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, options = create(local_cluster, 1)
    number = numbering(5)
    send(options, number, rows_of(3), kind=DirectSink)
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().alter_topic(topic, 2)

    def has_two_queues() -> bool:
        with blocking.connect(local_cluster.nameserver) as mq:
            return len(mq.admin().describe_topic(topic).route.write_queues(topic)) == 2

    wait_until(has_two_queues, "the topic has two queues")
    monkeypatch.setattr(worker, "_worker", [])  # the attempt is made in another process
    monkeypatch.setattr(attempt, "ASK_COUNT_MAX", 2)
    with pytest.raises(InvalidRequest, match="planned otherwise"):
        send(options, number, rows_of(3), kind=DirectSink)
    worker.worker().close()
    assert len(read(local_cluster, topic)) == 3


def test_a_forgotten_attempt_is_refused(
    local_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker knows nothing of the producer, and the first row is in the log."""
    topic, options = create(local_cluster, 1)
    number = numbering(5)
    send(options, number, rows_of(3), kind=DirectSink)

    async def forgotten(*_: object) -> None:
        return None

    monkeypatch.setattr(attempt, "next_number", forgotten)
    with pytest.raises(ProducerForgotten, match="forgotten how much"):
        send(options, number, rows_of(3), kind=DirectSink)
    assert len(read(local_cluster, topic)) == 3
    send(options, Numbering(number.query, 0, 6), rows_of(3), kind=DirectSink)
    assert len(read(local_cluster, topic)) == 6


def test_numbers_as_keys_and_as_values(local_cluster: LocalCluster) -> None:
    topic, options = create(local_cluster, 1)
    send(options, numbering(), rows_of(2, key=[17, None]))
    assert sorted(message.keys for message in read(local_cluster, topic)) == [[], ["17"]]
    with pytest.raises(BadRow, match="cast it to a string"):
        send(options, numbering(), pa.RecordBatch.from_pydict({"value": [1]}))


def test_large_texts_and_bytes_are_texts_and_bytes(local_cluster: LocalCluster) -> None:
    """So Spark gives them with arrow.useLargeVarTypes."""
    topic, options = create(local_cluster, 1)
    for number, kind in enumerate((pa.large_string(), pa.large_binary())):
        columns = {"value": pa.array(["v"], kind), "key": pa.array(["k"], kind)}
        send(options, numbering(number), pa.record_batch(columns))
    assert [(one.body, one.keys) for one in read(local_cluster, topic)] == [(b"v", ["k"])] * 2


@pytest.mark.timeout(60)
def test_without_a_key_index_numbers_still_count_once(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(1, {"broker.index_enabled": "false"})
    topic, options = create(cluster, 1)
    number = numbering(2)
    for count in (100, 3000):
        send(options, number, rows_of(count), kind=DirectSink)
    assert len(read(cluster, topic)) == 3000


def test_an_unknown_topic_and_a_dead_cluster_are_said(local_cluster: LocalCluster) -> None:
    nobody = sink_options({"servers": "127.0.0.1:1", "topic": "t", "client.connectTimeout": "0.2"})
    with pytest.raises(ClusterError, match="no name server answers"):
        send(nobody, numbering(), rows_of(1))


def test_a_queue_that_takes_nothing_is_given_up(make_cluster: Callable[..., LocalCluster]) -> None:
    """Two of three nodes are gone: no majority takes a row until `deliveryTimeoutMs` is over."""
    cluster = make_cluster()
    topic, _ = create(cluster, 1)
    patience = limit(1.5)  # enough for what the whole cluster takes
    given = {"servers": cluster.nameserver, "topic": topic}
    given |= {"deliveryTimeoutMs": f"{patience * 1000:.0f}"}
    hasty = {"client.requestTimeout": f"{patience}", "client.stallTimeout": f"{patience * 0.6}"}
    sink = DirectSink(sink_options(given | hasty), numbering())
    sink.add(rows_of(1))
    sink.finish()
    leader = cluster.leader()
    for member in cluster.profile.of_kind(BROKER):
        if member.name != leader:
            cluster.kill(member.name)
    sink.add(rows_of(1))
    with pytest.raises(ClusterError, match=f"took nothing for {patience:g} s"):
        sink.finish()
    sink.close()


@pytest.mark.timeout(60)
async def test_the_leader_is_killed_in_the_middle(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    topic, options = await asyncio.to_thread(create, cluster, 2)
    number = numbering(3)

    def work() -> None:
        sink = DirectSink(options, number)
        for part in range(8):
            sink.add(rows_of(1500, part * 1500))
            if part == 3:
                leader = cluster.leader()
                assert leader is not None
                cluster.kill(leader)
        sink.finish()

    await asyncio.to_thread(work)
    found = Counter(int(m.body) for m in await asyncio.to_thread(read, cluster, topic))
    assert sorted(found) == list(range(12_000))
    assert set(found.values()) == {1}
