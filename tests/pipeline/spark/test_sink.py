"""The sink in a real Spark: batch, streaming, tries again, restarts, errors."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cluster.client import blocking
from cluster.local.launcher import LocalCluster
from pipeline.options import OptionError
from tests.waiting import limit

COUNT = 3000
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def topic(local_cluster: LocalCluster) -> str:
    name = f"spark-{uuid.uuid4().hex[:8]}"
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic(name, 2)
    return name


def bodies(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    with blocking.connect(cluster.nameserver) as mq:
        wanted = mq.admin().describe_topic(topic).message_count
        with mq.reader(topic) as reader:
            found = [reader.receive(limit(30)) for _ in range(wanted)]
    return Counter(message.body for message in found if message is not None)


def numbers(spark: Any, count: int = COUNT) -> Any:
    return spark.range(0, count, 1, 3).selectExpr("CAST(id AS STRING) AS value", "'red' AS tags")


def all_once(found: Counter[bytes], count: int = COUNT) -> bool:
    return found == Counter(b"%d" % n for n in range(count))


def test_batch(spark: Any, local_cluster: LocalCluster, topic: str) -> None:
    writer = numbers(spark).write.format("dledger").option("servers", local_cluster.nameserver)
    writer.option("topic", topic).mode("append").save()
    assert all_once(bodies(local_cluster, topic))


def test_streaming_goes_on_after_a_restart_and_repeats_a_batch_once(
    spark: Any, local_cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """The commit of the newest batch is taken away: Spark writes it again, the broker knows it."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    for part in range(3):
        numbers(spark).selectExpr(f"CAST(value + {part * COUNT} AS STRING) AS value").coalesce(
            1
        ).write.text(str(source / f"p{part}"))

    def run(folders: str) -> None:
        frame = spark.readStream.schema("value STRING").text(str(source / folders))
        query = frame.writeStream.format("dledger").option("servers", local_cluster.nameserver)
        query = query.option("topic", topic).option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start().awaitTermination(60)

    run("p[0]")
    for _ in range(2):
        newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()
        (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
        run("p[0-1]")
    assert all_once(bodies(local_cluster, topic), 2 * COUNT)
    run("p*")
    assert all_once(bodies(local_cluster, topic), 3 * COUNT)


@pytest.mark.timeout(900)
def test_tasks_that_fail_and_batches_in_another_order_are_stored_once(
    spark: Any, local_cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """A shuffle without order; one task of each run fails half way; each batch is computed twice,
    the second time in other partitions. As a stream, and by foreachBatch with an identity."""
    each = f"{topic}-each"
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic(each, 2)
    script = Path(__file__).with_name("shuffling.py")
    command = [sys.executable, str(script), local_cluster.nameserver, str(tmp_path), topic, each]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=limit(880))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failed"] == [
        "failed-each-0",
        "failed-each-1",
        "failed-stream-0",
        "failed-stream-1",
    ]
    assert found["writes"] == [0, 0]
    assert all_once(bodies(local_cluster, topic), 4000)
    assert all_once(bodies(local_cluster, each), 4000)


def test_a_batch_write_without_an_identity_says_that_it_is_at_least_once(
    spark: Any, local_cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    from pipeline.sink.writer import batch_writer, stream_writer

    given = {"servers": local_cluster.nameserver, "topic": topic}
    known = {**given, "txnAppId": "nightly", "txnVersion": "7"}
    batch_writer(known, {"value": "string"}, False)
    assert not caplog.messages
    batch_writer(given, {"value": "string"}, False)
    assert "at-least-once when the job (or foreachBatch) is run again" in caplog.messages[0]
    with pytest.raises(OptionError, match="has an identity, its checkpoint"):
        stream_writer(known, {"value": "string"}, False)
    second = f"{topic}-second"
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic(second, 2)
    for _ in range(2):
        for each in (topic, second):  # a version is stored once in each topic
            writer = numbers(spark).write.format("dledger").options(**{**known, "topic": each})
            writer.mode("append").save()
    for each in (topic, second):
        assert all_once(bodies(local_cluster, each))


@pytest.mark.parametrize(
    ("options", "mode", "said"),
    [
        ({"colour": "red"}, "append", "unknown option 'colour'"),
        ({}, "overwrite", "only appended to"),
        ({"topic": ""}, "append", "there is no topic"),
    ],
)
def test_what_is_wrong_is_said(
    spark: Any,
    local_cluster: LocalCluster,
    topic: str,
    options: dict[str, str],
    mode: str,
    said: str,
) -> None:
    given = {"servers": local_cluster.nameserver, "topic": topic, **options}
    writer = numbers(spark, 1).write.format("dledger").options(**given).mode(mode)
    with pytest.raises(Exception, match=said):
        writer.save()
