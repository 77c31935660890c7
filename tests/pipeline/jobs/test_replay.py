"""A topic that was archived and sent again: same rows, same order, same keys and times, once."""

from __future__ import annotations

import uuid
from pathlib import Path
from zlib import crc32

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.client import blocking
from cluster.client.message import ReceivedMessage
from cluster.errors import InvalidRequest
from cluster.local.launcher import LocalCluster
from pipeline.jobs.archive import archive, read_archive
from pipeline.jobs.manifest import ArchiveError
from pipeline.jobs.replay import replay
from pipeline.options import LogOptions
from pipeline.sink.options import SinkOptions, sink_options
from pipeline.sink.worker import worker
from tests.pipeline.clock import next_millisecond
from tests.waiting import limit

from .stores import DLEDGER, put


def create(cluster: LocalCluster, queues: int) -> SinkOptions:
    topic = f"replay-{uuid.uuid4().hex[:8]}"
    with blocking.connect(cluster.nameserver) as mq:
        mq.admin().create_topic(topic, queues)
    return sink_options({"servers": cluster.nameserver, "topic": topic})


def read(options: SinkOptions) -> list[ReceivedMessage]:
    with blocking.connect(options.servers) as mq:
        wanted = mq.admin().describe_topic(options.topic).message_count
        with mq.reader(options.topic) as reader:
            found = [reader.receive(limit(30)) for _ in range(wanted)]
    return [message for message in found if message is not None]


def test_rows_come_back_as_they_were(local_cluster: LocalCluster, tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    for first in range(0, 90, 30):
        put(store, range(first, first + 30))
        archive(store, root, options=LogOptions(store, partition_bytes=1 << 13))
        next_millisecond()
    options = create(local_cluster, 3)
    assert replay(root, "even", options) == 45
    assert replay(root, "even", options) == 45, "again, and nothing is doubled"
    rows = {(row["queue"], row["offset"]): row for row in read_archive(root, "even").to_pylist()}
    found = read(options)
    assert len(found) == len(rows) == 45
    for message in found:
        row = rows[message.queue.queue_id, message.queue_offset]
        assert message.body == row["value"]
        assert message.keys == [row["keys"]]
        assert message.tags == row["tags"]
        assert message.properties["n"] == row["value"].decode()
        assert message.born_timestamp_ms == int(row["born_timestamp"].timestamp() * 1000)
        assert message.properties["ORIGIN_QUEUE_OFFSET"] == str(row["offset"])
        stored_ms = round(row["timestamp"].timestamp() * 1000)
        assert message.properties["ORIGIN_STORE_TIMESTAMP"] == str(stored_ms)
    put(store, range(90, 100))
    archive(store, root, options=LogOptions(store, partition_bytes=1 << 13))
    assert replay(root, "even", options) == 50
    assert len(read(options)) == 50


def test_compressed_bodies_and_odd_properties(local_cluster: LocalCluster, tmp_path: Path) -> None:
    """What Java clients wrote: bodies are inflated, no reserved property is sent on."""
    archive(DLEDGER, tmp_path)
    options = create(local_cluster, 8)
    rows = read_archive(tmp_path, "GoldA" if _has(tmp_path, "GoldA") else _some_topic(tmp_path))
    topic = rows.column("topic")[0].as_py()
    assert replay(tmp_path, topic, options, keep_queues=False) == len(rows)
    bodies = sorted(message.body for message in read(options))
    assert len(bodies) == len(rows)
    flags = rows.column("sys_flag").to_pylist()
    plain = [
        body
        for body, flag in zip(rows.column("value").to_pylist(), flags, strict=True)
        if not flag & 1
    ]
    assert set(plain) <= set(bodies)


def _has(root: Path, topic: str) -> bool:
    return read_archive(root, topic).num_rows > 0


def _some_topic(root: Path) -> str:
    names = read_archive(root).column("topic").value_counts().to_pylist()
    plain = [n for n in names if not n["values"].startswith(("%", "RMQ_SYS", "SCHEDULE"))]
    return str(max(plain, key=lambda name: name["counts"])["values"])


def test_what_cannot_be_replayed(local_cluster: LocalCluster, tmp_path: Path) -> None:
    put(tmp_path / "store", range(12))
    archive(tmp_path / "store", tmp_path / "archive")
    options = create(local_cluster, 1)
    with pytest.raises(ArchiveError, match="nothing of topic strange"):
        replay(tmp_path / "archive", "strange", options)
    with pytest.raises(InvalidRequest, match="no queue"):
        replay(tmp_path / "archive", "odd", options)
    assert replay(tmp_path / "archive", "odd", options, keep_queues=False) == 6


def test_replay_by_key_into_a_topic_that_grew_is_refused(
    local_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Its one row stands in queue 0 and would go to queue 1 now, where nothing is known of it."""
    number = next(n for n in range(0, 100, 2) if crc32(b"k%d" % n) % 2 == 1)
    put(tmp_path / "store", [number], queues=1)
    archive(tmp_path / "store", tmp_path / "archive")
    options = create(local_cluster, 1)
    assert replay(tmp_path / "archive", "even", options, keep_queues=False) == 1
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().alter_topic(options.topic, 2)
    client = worker().client(options.servers, options.client)  # of this process; it looks by itself
    worker().loop.run_until_complete(client.routes.refresh(options.topic))
    with pytest.raises(InvalidRequest, match="other number of queues"):
        replay(tmp_path / "archive", "even", options, keep_queues=False)
    assert len(read(options)) == 1
