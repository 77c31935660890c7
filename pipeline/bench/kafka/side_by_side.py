"""The run itself, in a process of the environment with Kafka's connector.

python -m pipeline.bench.kafka.side_by_side ⟨json of Options⟩      prints one JSON object

rows ─► Parquet ─┬─► kafka    one broker        ─► noop
                 ├─► one      a node of ours    ─► noop
                 └─► three    three of ours     ─► noop
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from cluster.bench.scratch import scratch_cluster
from cluster.client import blocking
from pipeline.bench.kafka.broker import kafka_broker
from pipeline.bench.kafka.installation import PARTS
from pipeline.bench.session import AS_CUT
from pipeline.bench.turns import Job, compared, take_turns
from pipeline.requirements import local_session

READ_TOPIC, WRITTEN_TOPIC = "bench-read", "bench-written"
QUEUES, BODY_SIZE = 4, 250
COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType"  # all that Kafka's has
READ_BAR = WRITE_BAR = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """`rows` are read and `written` are written, by each system in each repeat."""

    rows: int = 600_000
    written: int = 150_000
    repeats: int = 5
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """One system: how it is named to Spark's readers and writers."""

    format: str
    reader: Mapping[str, str]
    writer: Mapping[str, str]


def run(options: Options) -> dict[str, Any]:
    """Rows per second of each system, its ratio to Kafka's, and which bars were met."""
    jars = ",".join(str(path) for path in sorted(PARTS.connector.glob("*.jar")))
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(prefix="dledger-kafka-", dir=options.folder or None)
        folder = Path(stack.enter_context(scratch))
        peers = _peers(stack, folder)
        session = local_session("spark-kafka", settings={**AS_CUT, "spark.jars": jars})
        spark = stack.enter_context(session)
        filling = _rows(spark, folder / "rows", options.rows)
        for peer in peers.values():
            _write(filling, peer, READ_TOPIC)
        rows = _rows(spark, folder / "written", options.written)
        reading = {
            name: Job(options.rows, partial(_read, spark, peer)) for name, peer in peers.items()
        }
        writing = {
            name: Job(options.written, partial(_write, rows, peer, WRITTEN_TOPIC))
            for name, peer in peers.items()
        }
        reads = take_turns(reading, options.repeats)
        writes = take_turns(writing, options.repeats)
        for peer in peers.values():
            _check(spark, peer, options.rows)
    return {
        "read": compared(reads, "kafka"),
        "write": compared(writes, "kafka"),
        "bars": _bars(reads, writes),
    }


def _peers(stack: ExitStack, folder: Path) -> dict[str, Peer]:
    """All three, running; topics of ours are there, Kafka makes its own."""
    peers = {}
    for name, nodes in (("one", 1), ("three", 3)):
        cluster = stack.enter_context(scratch_cluster(str(folder), nodes))
        with blocking.connect(cluster.nameserver) as mq:
            for topic in (READ_TOPIC, WRITTEN_TOPIC):
                mq.admin().create_topic(topic, QUEUES)
        servers = {"bootstrap.servers": cluster.nameserver}
        peers[name] = Peer(
            "dledger", {**servers, "schemaStyle": "kafka", "columns": COLUMNS}, servers
        )
    host = cluster.nameserver.rpartition(":")[0]
    address = stack.enter_context(kafka_broker(PARTS.broker, folder / "kafka", host, QUEUES))
    servers = {"kafka.bootstrap.servers": address}
    return {"kafka": Peer("kafka", servers, servers), **peers}


def _rows(spark: Any, table: Path, count: int) -> Any:
    """Returns `count` messages read from Parquet, so that making them is not timed."""
    made = spark.range(0, count, 1, 2)
    made = made.selectExpr(f"rpad(id, {BODY_SIZE}, 'x') AS value", "CAST(id AS STRING) AS key")
    made.write.parquet(str(table))
    return spark.read.parquet(str(table))


def _frame(spark: Any, peer: Peer) -> Any:
    reader = spark.read.format(peer.format).options(**peer.reader)
    return reader.option("subscribe", READ_TOPIC).load()


def _read(spark: Any, peer: Peer) -> None:
    _frame(spark, peer).write.format("noop").mode("overwrite").save()


def _write(rows: Any, peer: Peer, topic: str) -> None:
    writer = rows.write.format(peer.format).options(**peer.writer)
    writer.option("topic", topic).mode("append").save()


def _check(spark: Any, peer: Peer, rows: int) -> None:
    """Asserts that the timed reads saw every row, with all of its columns."""
    frame = _frame(spark, peer)
    assert frame.columns == COLUMNS.split(","), frame.columns
    ((found, different),) = frame.selectExpr("count(*)", "count(DISTINCT key)").collect()
    assert (found, different) == (rows, rows), (peer.format, found, different)


def _bars(reads: Mapping[str, list[float]], writes: Mapping[str, list[float]]) -> dict[str, Any]:
    """One node beside one broker decides; three do more than Kafka's one."""
    read = median(reads["one"]) / median(reads["kafka"])
    write = median(writes["one"]) / median(writes["kafka"])
    return {
        "read_ratio": READ_BAR,
        "read_met": read >= READ_BAR,
        "write_ratio": WRITE_BAR,
        "write_met": write >= WRITE_BAR,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Options(**json.loads(sys.argv[1])))) + "\n")
