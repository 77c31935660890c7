"""The run itself, in a process of the environment with Kafka's connector.

python -m pipeline.bench.kafka.side_by_side ⟨json of Options⟩      prints one JSON object

rows ─► Parquet ─┬─► kafka    three brokers      ─► noop
                 ├─► three    three of ours      ─► noop
                 └─► with one_node: kafka_one, one
written by turns, too: three_at_least_once, three_in_memory (README.md says what each promises)
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

import psutil

from cluster.bench.scratch import scratch_cluster
from cluster.client import Durability, blocking
from pipeline.bench.kafka.broker import kafka_brokers, make_topics, replicas_in_sync
from pipeline.bench.kafka.installation import PARTS
from pipeline.bench.options import AS_CUT
from pipeline.bench.turns import Job, Turns, compared, turns_with_cpu
from pipeline.requirements import local_session

READ_TOPIC, WRITTEN_TOPIC, IN_MEMORY_TOPIC = "bench-read", "bench-written", "bench-in-memory"
TOPICS: Mapping[str, Durability | None] = {
    READ_TOPIC: None,
    WRITTEN_TOPIC: None,
    IN_MEMORY_TOPIC: Durability.MAJORITY_IN_MEMORY,
}
QUEUES, BODY_SIZE, NODES = 4, 250, 3
KAFKA_HOST = 101  # the last byte of its first node's address, in the block of 127/8 that ours has
NODE_MODULE = "cluster.local.node_main"
WARM_UPS = 2  # Java compiles for long what it runs often
COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType"  # all that Kafka's has
READ_BAR, WRITE_BAR = 1.5, 0.8
SPARK, OUR_NODES, KAFKA_NODES = ("spark_jvm", "spark_python"), "our_nodes", "kafka_nodes"


@dataclass(frozen=True, slots=True)
class Options:
    """`rows` are read and `written` are written, by each system in each repeat.

    `one_node`: one node of each system, too.
    """

    rows: int = 600_000
    written: int = 150_000
    repeats: int = 5
    folder: str = ""
    one_node: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """One system: how it is named to Spark's readers and writers."""

    format: str
    reader: Mapping[str, str]
    writer: Mapping[str, str]


def run(options: Options) -> dict[str, Any]:
    """Rows per second of each system, its ratio to Kafka's, processor time a row by parts, and
    which bars were met."""
    jars = ",".join(str(path) for path in sorted(PARTS.connector.glob("*.jar")))
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(prefix="dledger-kafka-", dir=options.folder or None)
        folder = Path(stack.enter_context(scratch))
        session = local_session("spark-kafka", settings={**AS_CUT, "spark.jars": jars})
        spark = stack.enter_context(session)
        peers = _pair(stack, spark, folder, "kafka", "three", NODES)
        if options.one_node:
            peers |= _pair(stack, spark, folder, "kafka_one", "one", 1)
        filling = _rows(spark, folder / "rows", options.rows)
        for peer in peers.values():
            _write(filling, peer, READ_TOPIC)
        rows = _rows(spark, folder / "written", options.written)
        reading = {
            name: Job(options.rows, partial(_read, spark, peer)) for name, peer in peers.items()
        }
        writing = {
            name: Job(options.written, partial(_write, rows, peer, topic))
            for name, (peer, topic) in _writers(peers).items()
        }
        measured = partial(turns_with_cpu, warm_ups=WARM_UPS, part_of=_part)
        reads = measured(reading, options.repeats)
        writes = measured(writing, options.repeats)
        for peer in peers.values():
            _check(spark, peer, options.rows)
        in_sync = replicas_in_sync(_jvm(spark), _servers(peers["kafka"]), WRITTEN_TOPIC)
    return {
        "read": compared(reads.rates, "kafka"),
        "write": compared(writes.rates, "kafka"),
        "ratios": {"read": _ratios(reads), "write": _ratios(writes)},
        "cpu_us_a_row": {"read": _parts(reads), "write": _parts(writes)},
        "cpu_us_by_turn": {"read": _by_turn(reads), "write": _by_turn(writes)},
        "kafka_replicas_in_sync": in_sync,
        "bars": _bars(reads.rates, writes.rates),
    }


def _pair(
    stack: ExitStack, spark: Any, folder: Path, theirs: str, ours: str, nodes: int
) -> dict[str, Peer]:
    """Kafka and ours on `nodes` nodes each, running, with the topics."""
    mine = _ours(stack, folder, nodes)
    block = mine.writer["bootstrap.servers"].rpartition(":")[0].rpartition(".")[0]
    hosts = [f"{block}.{KAFKA_HOST + number}" for number in range(nodes)]
    address = stack.enter_context(kafka_brokers(PARTS.broker, folder / theirs, hosts))
    make_topics(_jvm(spark), address, list(TOPICS), QUEUES, nodes)
    servers = {"kafka.bootstrap.servers": address}
    kafka = Peer("kafka", servers, {**servers, "kafka.acks": "all"})
    return {theirs: kafka, ours: mine}


def _ours(stack: ExitStack, folder: Path, nodes: int) -> Peer:
    """Ours on `nodes` nodes, running, with the topics."""
    cluster = stack.enter_context(scratch_cluster(str(folder), nodes))
    with blocking.connect(cluster.nameserver) as mq:
        for topic, durability in TOPICS.items():
            mq.admin().create_topic(topic, QUEUES, durability=durability)
    servers = {"bootstrap.servers": cluster.nameserver}
    return Peer("dledger", {**servers, "schemaStyle": "kafka", "columns": COLUMNS}, servers)


def _writers(peers: Mapping[str, Peer]) -> dict[str, tuple[Peer, str]]:
    """All peers as they are, and ours on three nodes with fewer promises."""
    three = peers["three"]
    at_least_once = Peer(three.format, three.reader, {**three.writer, "delivery": "at-least-once"})
    return {
        **{name: (peer, WRITTEN_TOPIC) for name, peer in peers.items()},
        "three_at_least_once": (at_least_once, WRITTEN_TOPIC),
        "three_in_memory": (at_least_once, IN_MEMORY_TOPIC),
    }


def _servers(peer: Peer) -> str:
    return peer.writer["kafka.bootstrap.servers"]


def _jvm(spark: Any) -> Any:
    return spark.sparkContext._jvm


def _part(process: psutil.Process) -> str:
    """Which part of the run a process is."""
    command = process.cmdline()
    if "kafka.Kafka" in command:
        return KAFKA_NODES
    if any(NODE_MODULE in word for word in command):
        return OUR_NODES
    return SPARK[0] if command[:1] and Path(command[0]).name == "java" else SPARK[1]


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


def _parts(found: Turns) -> dict[str, dict[str, float]]:
    """Median microseconds a row of each part of a system. The idle nodes of the other one are left
    out."""
    return {
        name: {
            part: round(1e6 * median(turn.get(part, 0.0) for turn in turns), 2)
            for part in (*SPARK, KAFKA_NODES if name.startswith("kafka") else OUR_NODES)
        }
        for name, turns in found.parts.items()
    }


def _by_turn(found: Turns) -> dict[str, list[float]]:
    """Microseconds a row of all processes: they fall while the compilers of Java are at work."""
    return {name: [round(1e6 * cpu, 1) for cpu in turns] for name, turns in found.cpu.items()}


def _ratios(found: Turns) -> dict[str, dict[str, float]]:
    """How much quicker than Kafka each is: in time, and in processor time of its own parts."""
    spent = {name: sum(parts.values()) for name, parts in _parts(found).items()}
    return {
        name: {
            "time": found.ratios(name, "kafka")["time"],
            "cpu": round(spent["kafka"] / spent[name], 3) if spent[name] else 0.0,
        }
        for name in found.rates
    }


def _bars(reads: Mapping[str, list[float]], writes: Mapping[str, list[float]]) -> dict[str, Any]:
    """Three nodes beside three. Ours writes each row once, on disks; Kafka's at least once, in
    memory."""
    read = median(reads["three"]) / median(reads["kafka"])
    write = median(writes["three"]) / median(writes["kafka"])
    return {
        "read_ratio": READ_BAR,
        "read_met": read >= READ_BAR,
        "write_ratio": WRITE_BAR,
        "write_met": write >= WRITE_BAR,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Options(**json.loads(sys.argv[1])))) + "\n")
