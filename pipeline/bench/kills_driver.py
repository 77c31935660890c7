"""The driver that `kills.py` starts and kills: one topic → a table, and → another topic.

    python -m pipeline.bench.kills_driver ⟨json of Work⟩

Runs until it is killed; with `last` it ends when everything is through, and prints one object with
what the table holds.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.bench.options import AS_CUT
from pipeline.requirements import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFFSETS_PER_TRIGGER = 500  # small micro-batches: a kill finds every moment of one
SECONDS_MAX = 240.0
SESSION = {
    **AS_CUT,
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True, slots=True)
class Work:
    """The settings of a driver process. `folder`: for the table and both checkpoints."""

    servers: str
    source: str
    target: str
    folder: str
    last: bool


def start(spark: SparkSession, work: Work) -> list[Any]:
    """Start both queries and return them."""
    frame = spark.readStream.format("dledger").options(
        **{
            "bootstrap.servers": work.servers,
            "subscribe": work.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER),
            "columns": "value,queue,offset",
        }
    )
    table = frame.load().writeStream.format("parquet").option("path", f"{work.folder}/table")
    topic = frame.load().select("value").writeStream.format("dledger")
    topic = topic.option("bootstrap.servers", work.servers).option("topic", work.target)
    queries = []
    for name, writer in (("table", table), ("topic", topic)):
        writer = writer.option("checkpointLocation", f"{work.folder}/checkpoint-{name}")
        if work.last:
            writer = writer.trigger(availableNow=True)
        queries.append(writer.start())
    return queries


def main() -> None:
    """Run until killed, or to the end."""
    work = Work(**json.loads(sys.argv[1]))
    with local_session("dledger kills", settings=SESSION) as spark:
        queries = start(spark, work)
        if not work.last:
            spark.streams.awaitAnyTermination()
            sys.exit("a query ended by itself")
        for query in queries:
            if not query.awaitTermination(SECONDS_MAX):
                sys.exit(f"not through after {SECONDS_MAX:g} s: {query.lastProgress}")
        values = [bytes(row.value) for row in spark.read.parquet(f"{work.folder}/table").collect()]
        found = {"rows": len(values), "distinct": len(set(values))}
        sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
