"""`dledger bench spark-source`: a topic of a running cluster → noop, in Spark and without.

    cluster of three ◄── fill: `rows` messages of about 250 bytes, four queues
         ▲  raw ranges over TCP
    Spark local[2] ── all columns, six columns, columns without the body, pulls, Parquet of the same

All share the machine's cores: three brokers, the JVM and two Python workers. The variants take
turns, `repeats` times; median and best of each are reported as rows and log bytes per second, and
each one's ratio to Spark's own Parquet reader on the same rows in the same run. Bars: all columns
at least 0.6 M rows/s and 150 MB/s on two cores that nobody else uses; a micro-batch of 100 rows at
most 250 ms.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import click

from cluster.bench.scratch import scratch_cluster
from cluster.client import connect
from cluster.client.config import ProducerConfig
from cluster.commands.bench import tell
from cluster.commands.output import report_option
from commitlog.records.record import HEADER_SIZE
from pipeline.bench.options import AS_CUT, folder_option, repeats_option
from pipeline.bench.turns import Job, compared, take_turns
from pipeline.requirements import local_session
from pipeline.source.options import source_options
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.raw import places_of
from pipeline.source.reading import read
from pipeline.source.remote import remote

TOPIC = "bench-source"
ROWS = 1_000_000
QUEUES = 4
BODY_SIZE = 110  # with headers, key, tag and numbers a record of some 250 bytes
ROWS_BAR, BYTES_BAR = 600_000, 150e6
SIX_COLUMNS = "topic,queue,offset,timestamp,properties,value"
PRUNED_COLUMNS = "topic,queue,offset,timestamp"
FILL_WINDOW = 4096
MICRO_BATCH_MS_BAR = 250
MICRO_BATCHES, MICRO_BATCHES_WARM = 24, 4
PULL_SHARE = 20  # pulls read one row of so many: they are slower


@dataclass(frozen=True, slots=True)
class Options:
    """`folder`: where the cluster lives, "" for the system's place."""

    folder: str = ""
    rows: int = ROWS
    repeats: int = 5
    partition_bytes: int = 32 << 20
    fetch_bytes: int = 4 << 20


def run(options: Options) -> dict[str, Any]:
    """Measure; one JSON object. Raises ImportError without Spark, LauncherError."""
    settings = {"raft.data_file_size": str(256 << 20)}
    with scratch_cluster(options.folder, 3, settings) as cluster:
        filled = _fill(cluster.nameserver, options.rows)
        base = {
            "bootstrap.servers": cluster.nameserver,
            "subscribe": TOPIC,
            "bytesPerPartition": str(options.partition_bytes),
            "fetchBytes": str(options.fetch_bytes),
        }
        log_bytes = _log_bytes(base)
        plain = _without_spark(base)
        with (
            local_session("dledger bench spark-source", settings=AS_CUT) as spark,
            tempfile.TemporaryDirectory(dir=options.folder or None) as folder,
        ):
            variants = _variants(spark, base, options.rows, Path(folder))
            rates = take_turns(variants, options.repeats)
            batches = _micro_batches(spark, base, Path(folder) / "checkpoint")
    return _result(options, log_bytes, filled, plain, rates, batches)


def _fill(servers: str, rows: int) -> float:
    """Messages per second while filling."""
    began = time.perf_counter()
    asyncio.run(_send(servers, rows))
    return rows / (time.perf_counter() - began)


async def _send(servers: str, rows: int) -> None:
    random = Random(1)
    bodies = [random.randbytes(BODY_SIZE) for _ in range(1024)]
    config = ProducerConfig(batching=True, in_flight_max=FILL_WINDOW)
    async with connect(servers) as mq:
        await mq.admin().create_topic(TOPIC, QUEUES)
        async with mq.producer(config=config) as producer:
            await producer.open_topic(TOPIC)
            for first in range(0, rows, FILL_WINDOW):
                for number in range(first, min(first + FILL_WINDOW, rows)):
                    key, tag = f"k{number}", f"t{number % 7}"
                    producer.send_nowait(TOPIC, bodies[number & 1023], key=key, tags=tag)
                await producer.flush()


def _log_bytes(base: dict[str, str]) -> int:
    """Bytes of the log that hold the topic's messages, entry headers included."""
    options = source_options(base, streaming=False)
    place = remote(options)
    places = places_of(place, options, batch_ranges(place, options))
    return int(places.size.sum()) + HEADER_SIZE * len(places.size)


def _without_spark(base: dict[str, str]) -> dict[str, float]:
    """Seconds of one thread of this process for all columns, raw, with and without checksums."""
    seconds = {}
    for name, more in (("checked", {}), ("unchecked", {"verifyCrc": "false"})):
        options = source_options({**base, **more}, streaming=False)
        place = remote(options)
        planned = tasks(place, options, batch_ranges(place, options))
        began = time.perf_counter()
        for task in planned:
            for _ in read(options, task):
                pass
        seconds[name] = time.perf_counter() - began
    return seconds


def _variants(spark: Any, base: dict[str, str], rows: int, folder: Path) -> dict[str, Job]:
    """Each reads a frame to nowhere."""

    def topic(**more: str) -> Callable[[], Any]:
        return lambda: spark.read.format("dledger").options(**{**base, **more}).load()

    def reading(count: int, frame: Callable[[], Any]) -> Job:
        return Job(count, lambda: frame().write.format("noop").mode("overwrite").save())

    share = {str(queue): rows // QUEUES // PULL_SHARE for queue in range(QUEUES)}
    table = str(folder / "table")
    topic()().write.mode("overwrite").parquet(table)
    return {
        "all": reading(rows, topic()),
        "six": reading(rows, topic(columns=SIX_COLUMNS)),
        "pruned": reading(rows, topic(columns=PRUNED_COLUMNS)),
        "unchecked": reading(rows, topic(verifyCrc="false")),
        "pulled": reading(
            sum(share.values()),
            topic(fetch="pull", endingOffsets=json.dumps({TOPIC: share})),
        ),
        "parquet": reading(rows, lambda: spark.read.parquet(table)),
    }


def _micro_batches(spark: Any, base: dict[str, str], checkpoint: Path) -> list[int]:
    """Returns the milliseconds of micro-batches with hardly any rows."""
    given = {**base, "maxOffsetsPerTrigger": "100", "startingOffsets": "earliest"}
    frame = spark.readStream.format("dledger").options(**given).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.start()
    while len(query.recentProgress) < MICRO_BATCHES and query.isActive:
        time.sleep(0.1)
    query.stop()
    found = [batch for batch in query.recentProgress if batch.numInputRows]
    return [batch.durationMs["triggerExecution"] for batch in found[MICRO_BATCHES_WARM:]]


def _result(
    options: Options,
    log_bytes: int,
    filled: float,
    plain: dict[str, float],
    rates: dict[str, list[float]],
    batches: list[int],
) -> dict[str, Any]:
    row_bytes = log_bytes / options.rows
    variants = compared(rates, "parquet")
    for found in variants.values():
        found["mb_per_s_median"] = round(found["rows_per_s_median"] * row_bytes / 1e6, 1)
    everything = variants["all"]
    return {
        "options": asdict(options),
        "row_bytes": round(row_bytes, 1),
        "filled_per_s": round(filled),
        "without_spark": {
            name: {
                "rows_per_s": round(options.rows / seconds),
                "mb_per_s": round(log_bytes / seconds / 1e6, 1),
            }
            for name, seconds in plain.items()
        },
        "variants": variants,
        "micro_batch_ms": {"median": median(batches), "best": min(batches)},
        "bars": {
            "rows_per_s": ROWS_BAR,
            "rows_met": everything["rows_per_s_median"] >= ROWS_BAR,
            "bytes_per_s": BYTES_BAR,
            "bytes_met": everything["mb_per_s_median"] * 1e6 >= BYTES_BAR,
            "micro_batch_ms": MICRO_BATCH_MS_BAR,
            "micro_batch_met": median(batches) <= MICRO_BATCH_MS_BAR,
        },
    }


@click.command("spark-source")
@click.option("--rows", default=ROWS, show_default=True, help="Messages in the topic.")
@repeats_option
@folder_option
@report_option
def command(rows: int, repeats: int, folder: str, output: str) -> None:
    """Read a topic in Spark: rows per second, beside Parquet. Exit code 1: below a bar."""
    tell(run(Options(folder=folder, rows=rows, repeats=repeats)), output)
