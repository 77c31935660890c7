"""`dledger bench spark-sink`: rows → topic; encoded only, sent without Spark, written by Spark.

    encode    items of 250-byte bodies by columns, without and with key and tag; one core
    task      one task's rows into a cluster of three, staged and published, without Spark
    direct    the same rows sent as they come, which is what at-least-once does
    spark     a DataFrame written by local[2] into the same cluster
    micro     a micro-batch of 100 rows from a topic to a topic: its fixed cost

All share the machine's cores with three brokers. Bars: encode 2 M rows/s, spark 50,000 rows/s,
micro 400 ms; the median of `repeats` decides. A struct loop that makes the same bytes is timed in
the same run.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import click
import pyarrow as pa

from cluster.bench.scratch import scratch_cluster
from cluster.client import blocking
from cluster.commands.bench import tell
from cluster.commands.output import report_option
from cluster.local.launcher import LocalCluster
from cluster.protocol.batch import encode_numbered
from pipeline.bench.options import LOCAL, folder_option, repeats_option
from pipeline.bench.turns import Job, take_turns
from pipeline.requirements import local_session
from pipeline.sink.items import Numbering, encode_items, requests_of
from pipeline.sink.options import sink_options
from pipeline.sink.task import DirectSink, TaskSink

TOPIC, QUEUES, BODY_SIZE, BATCH_ROWS = "bench-sink", 4, 250, 10_000
ENCODE_BAR, SPARK_BAR, MICRO_BAR_MS = 2e6, 50_000, 400
MICRO_BATCHES, MICRO_ROWS = 16, 100
SESSION = {**LOCAL, "spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True, slots=True)
class Options:
    """`rows` are written by the task, and by Spark, in each repeat."""

    rows: int = 300_000
    repeats: int = 5
    folder: str = ""
    spark: bool = True


def run(options: Options) -> dict[str, Any]:
    """Rates in rows per second, medians and bests, and which bars were met."""
    rates = take_turns(_encoders(), 4 * options.repeats)
    with (
        tempfile.TemporaryDirectory(prefix="dledger-sink-", dir=options.folder or None) as name,
        scratch_cluster(name) as cluster,
    ):
        with blocking.connect(cluster.nameserver) as mq:
            mq.admin().create_topic(TOPIC, QUEUES)
        sinks = {
            "task": Job(options.rows, lambda: _send(cluster, options.rows, TaskSink)),
            "direct": Job(options.rows, lambda: _send(cluster, options.rows, DirectSink)),
        }
        rates |= take_turns(sinks, options.repeats)
        micro_ms: list[int] = []
        if options.spark:
            with local_session("sink", settings=SESSION) as spark:
                writer = Job(options.rows, lambda: _write(spark, cluster, options.rows))
                rates |= take_turns({"spark": writer}, options.repeats)
                micro_ms = _micro(spark, cluster, Path(name))
    return _result(rates, micro_ms)


def _result(rates: dict[str, list[float]], micro_ms: list[int]) -> dict[str, Any]:
    middle = {name: median(found) for name, found in rates.items()}
    bars: dict[str, Any] = {"encode_met": middle["encode"] >= ENCODE_BAR}
    if "spark" in middle:
        bars["spark_met"] = middle["spark"] >= SPARK_BAR
    if micro_ms:
        bars["micro_met"] = median(micro_ms) <= MICRO_BAR_MS
    return {
        "rows_per_s_median": middle,
        "rows_per_s_best": {name: max(found) for name, found in rates.items()},
        "encode_to_loop": middle["encode"] / middle["loop"],
        "task_to_direct": middle["task"] / middle["direct"] if "task" in middle else 0,
        "micro_batch_ms_median": median(micro_ms) if micro_ms else 0,
        "bars": bars,
    }


def _encoders() -> dict[str, Job]:
    """The same rows by columns and one by one; and with key and tag."""
    random = Random(1)
    bodies = [random.randbytes(BODY_SIZE) for _ in range(BATCH_ROWS)]
    column = pa.array(bodies, pa.binary())
    numbering = Numbering(uuid.uuid4().hex, 0, 3)
    prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % numbering.producer.encode()
    head = numbering.key_head("q")
    more = {
        "key": pa.array([f"k{number}" for number in range(BATCH_ROWS)]),
        "tags": pa.array(["red"] * BATCH_ROWS),
    }

    def by_columns(columns: dict[str, Any]) -> list[tuple[int, bytes]]:
        return list(requests_of(encode_items(columns, numbering, "q", 0)))

    def one_by_one() -> bytes:
        rows = (
            (None, body, b"UNIQ_KEY\x01%b%08x\x02" % (head.encode(), row), None)
            for row, body in enumerate(bodies)
        )
        return encode_numbered(rows, prefix, numbering.sequence(0))

    assert b"".join(body for _, body in by_columns({"value": column})) == one_by_one()
    return {
        "encode": Job(BATCH_ROWS, lambda: by_columns({"value": column})),
        "loop": Job(BATCH_ROWS, one_by_one),
        "encode_key_tag": Job(BATCH_ROWS, lambda: by_columns({"value": column, **more})),
    }


def _send(cluster: LocalCluster, rows: int, kind: type[TaskSink] | type[DirectSink]) -> None:
    """One task without Spark."""
    random = Random(1)
    bodies = pa.array([random.randbytes(BODY_SIZE) for _ in range(BATCH_ROWS)], pa.binary())
    batch = pa.RecordBatch.from_pydict({"value": bodies})
    options = sink_options({"servers": cluster.nameserver, "topic": TOPIC})
    sink = kind(options, Numbering(uuid.uuid4().hex, 0, 0))
    for first in range(0, rows, BATCH_ROWS):
        sink.add(batch.slice(0, min(BATCH_ROWS, rows - first)))
    sink.finish()


def _write(spark: Any, cluster: LocalCluster, rows: int) -> None:
    frame = spark.range(0, rows, 1, 2).selectExpr(f"lpad(id, {BODY_SIZE}, 'x') AS value")
    writer = frame.write.format("dledger").option("bootstrap.servers", cluster.nameserver)
    writer.option("topic", TOPIC).mode("append").save()


def _micro(spark: Any, cluster: LocalCluster, folder: Path) -> list[int]:
    """Milliseconds of small micro-batches from a topic to a topic, without the first ones."""
    reader = spark.readStream.format("dledger").option("bootstrap.servers", cluster.nameserver)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", str(MICRO_ROWS)).load().select("value")
    writer = frame.writeStream.format("dledger").option("bootstrap.servers", cluster.nameserver)
    writer = writer.option("topic", f"{TOPIC}-copy")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    found: dict[int, int] = {}
    try:
        while len(found) < MICRO_BATCHES:
            for progress in query.recentProgress:
                found[progress.batchId] = progress.durationMs["triggerExecution"]
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            time.sleep(0.1)
    finally:
        query.stop()
    return [found[batch] for batch in sorted(found)][MICRO_BATCHES // 4 :]


@click.command("spark-sink")
@click.option(
    "--rows",
    type=click.IntRange(1000),
    default=300_000,
    show_default=True,
    help="Messages to write.",
)
@repeats_option
@click.option("--no-spark", is_flag=True, help="Encoding and one task only.")
@folder_option
@report_option
def command(rows: int, repeats: int, no_spark: bool, folder: str, output: str) -> None:
    """Rows per second: encoded by columns, sent by one task, written by Spark."""
    tell(run(Options(rows, repeats, folder, not no_spark)), output)
