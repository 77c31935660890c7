"""The shipping reader and sink: a task that is repeated reads its rows in another order.

Attempt 1 takes the first 3,000 of 8,000 rows; attempt 2 reads the same range by other means (`raw`
gives log order, `pull` queue order) and takes all of it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from cluster.client import blocking
from cluster.errors import IllegalOperation
from cluster.local.launcher import LocalCluster
from pipeline.sink.driver import commit_batch
from pipeline.sink.numbering import Numbering
from pipeline.sink.options import sink_options
from pipeline.sink.staged import Staged
from pipeline.sink.task import RowSink, StagingSink, TaskSink
from pipeline.source.options import source_options
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.reading import read
from pipeline.source.remote import remote

ROWS, CUT = 8000, 3000
WAYS = [("raw", "raw"), ("raw", "pull"), ("pull", "raw")]


@pytest.fixture(scope="module")
def source(local_cluster: LocalCluster) -> str:
    """A topic whose queues take turns in the log."""
    topic = f"in-{uuid.uuid4().hex[:8]}"
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic(topic, 4)
    fill = TaskSink(
        sink_options({"servers": local_cluster.nameserver, "topic": topic}),
        Numbering(uuid.uuid4().hex, 0, 0),
    )
    for begin in range(0, ROWS, 200):
        rows = [b"%06d" % number for number in range(begin, begin + 200)]
        queue = pa.array([begin // 200 % 4] * 200, pa.int32())
        fill.add(pa.record_batch({"value": pa.array(rows, pa.binary()), "queue": queue}))
    fill.finish()
    return topic


def batches(cluster: LocalCluster, topic: str, way: str) -> Iterator[pa.RecordBatch]:
    given = {"servers": cluster.nameserver, "subscribe": topic, "columns": "value", "fetch": way}
    options = source_options(given, streaming=False)
    place = remote(options)
    for task in tasks(place, options, batch_ranges(place, options)):
        yield from read(options, task)


def fed(sink: RowSink, rows: Iterator[pa.RecordBatch], limit: int = ROWS) -> None:
    for batch in rows:
        part = batch.slice(0, limit)
        if part.num_rows:
            sink.add(part)
        limit -= part.num_rows


def target(cluster: LocalCluster) -> str:
    topic = f"out-{uuid.uuid4().hex[:8]}"
    with blocking.connect(cluster.nameserver) as mq:
        mq.admin().create_topic(topic, 4)
    return topic


def values(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for batch in batches(cluster, topic, "auto"):
        found.update(batch.column(0).to_pylist())
    return found


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_a_task_that_is_repeated_in_another_order_stores_each_row_once(
    local_cluster: LocalCluster, source: str, first: str, second: str
) -> None:
    """As Spark does: the first attempt dies, the commit names the second; then all of it again."""
    topic, numbering = target(local_cluster), Numbering(uuid.uuid4().hex, 0, 0)
    options = sink_options({"servers": local_cluster.nameserver, "topic": topic})
    dying = StagingSink(options, numbering)
    fed(dying, batches(local_cluster, source, first), CUT)
    dying.close()

    def attempt(way: str) -> Staged:
        sink = StagingSink(options, numbering)
        fed(sink, batches(local_cluster, source, way))
        return sink.finish()

    for way in (second, first):
        commit_batch(options, numbering.query, 0, [attempt(way)])
    assert values(local_cluster, topic) == Counter(b"%06d" % number for number in range(ROWS))


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_a_batch_of_one_task_is_refused_with_other_rows(
    local_cluster: LocalCluster, source: str, first: str, second: str
) -> None:
    """The first 3,000 were published as the whole batch: the others cannot follow in it."""
    topic, numbering = target(local_cluster), Numbering(uuid.uuid4().hex, 0, 0)
    options = sink_options({"servers": local_cluster.nameserver, "topic": topic})
    sink = TaskSink(options, numbering)
    fed(sink, batches(local_cluster, source, first), CUT)
    sink.finish()
    again = TaskSink(options, numbering)
    fed(again, batches(local_cluster, source, second))
    with pytest.raises(IllegalOperation, match="3000 rows then, 8000 now"):
        again.finish()
    assert sum(values(local_cluster, topic).values()) == CUT
