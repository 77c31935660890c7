"""A job on a standalone cluster: which dledger each process has, and rows there and back.

    clustered.py ⟨servers⟩ ⟨topic in⟩ ⟨topic out⟩ ⟨folder⟩

One line of JSON. It has no import of the tests: it runs where only dledger is installed.
"""

import json
import os
import sys
from collections.abc import Iterator

from pyspark.sql import SparkSession

import pipeline

SLOTS = 4


def place(_: object) -> Iterator[tuple[str, str, str]]:
    """In a task: host, folder of the package, PYTHONPATH without Spark's own."""
    import pipeline as mine

    path = os.environ.get("PYTHONPATH", "")
    others = [part for part in path.split(os.pathsep) if part and "pyspark" not in part]
    yield os.environ.get("SPARK_LOCAL_IP", ""), str(mine.__file__), ",".join(others)


def main() -> None:
    servers, topic, target, folder = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    pipeline.register(spark)
    slots = spark.sparkContext.parallelize(range(SLOTS), SLOTS)
    places = slots.barrier().mapPartitions(place).collect()  # all at once, so on both workers
    options = {"servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("dledger").options(**options).load().select("value")
    writer = stream.repartition(3).writeStream.format("dledger")
    writer = writer.options(servers=servers, topic=target)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    assert writer.trigger(availableNow=True).start().awaitTermination(1800)
    batch = spark.read.format("dledger").options(servers=servers, subscribe=target).load()
    values = sorted(bytes(row.value).decode() for row in batch.select("value").collect())
    found = {"places": places, "driver": str(pipeline.__file__), "values": values}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
