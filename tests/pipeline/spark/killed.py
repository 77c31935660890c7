"""The driver that test_cluster_kills.py kills: topic → shuffle without order → another topic.

    killed.py ⟨servers⟩ ⟨folder⟩

Each lap is a folder `lap-…` with `topics.json`: the topics of a query that runs until the lap has a
file `sent`. Then everything there is is written, Spark counts the other topic, and `result.json`
has the count. A driver that starts goes on with the first lap without a result; a file `end` ends
it. It has no import of the tests: it runs where only dledger is installed.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import rand

import pipeline

OFFSETS_PER_TRIGGER = 200  # small batches: a kill finds every moment of one
PARTITIONS = 3
LOOK_SECONDS = 0.1


def stream(spark: Any, servers: str, lap: Path) -> Any:
    """The query of a lap: a batch that is computed again has its rows elsewhere."""
    topics = json.loads((lap / "topics.json").read_text())
    rows = spark.readStream.format("dledger").options(
        servers=servers,
        subscribe=topics["source"],
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(OFFSETS_PER_TRIGGER),
        columns="value",
    )
    writer = rows.load().repartition(PARTITIONS, rand()).writeStream.format("dledger")
    writer = writer.options(servers=servers, topic=topics["target"])
    writer = writer.option("checkpointLocation", str(lap / "checkpoint"))
    return writer.trigger(processingTime="200 milliseconds").start()


def run(spark: Any, servers: str, lap: Path) -> None:
    """To the lap's end. Raises what ended the query."""
    query = stream(spark, servers, lap)
    while not (lap / "sent").exists():
        if query.awaitTermination(LOOK_SECONDS):
            raise RuntimeError("the query ended by itself")
    query.processAllAvailable()
    query.stop()
    target = json.loads((lap / "topics.json").read_text())["target"]
    batch = spark.read.format("dledger").options(servers=servers, subscribe=target).load()
    made = lap / "result"
    made.write_text(json.dumps({"count": batch.count()}))
    made.rename(lap / "result.json")


def main() -> None:
    servers, folder = sys.argv[1], Path(sys.argv[2])
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    pipeline.register(spark)
    pause = threading.Event()
    while not (folder / "end").exists():
        laps = sorted(path.parent for path in folder.glob("lap-*/topics.json"))
        left = [lap for lap in laps if not (lap / "result.json").exists()]
        if left:
            run(spark, servers, left[0])
        else:
            pause.wait(LOOK_SECONDS)
    spark.stop()


if __name__ == "__main__":
    main()
