"""Jobs whose tasks give their rows in another order each time, and fail once half way.

    python tests/pipeline/spark/shuffling.py ⟨servers⟩ ⟨folder⟩ ⟨topic⟩ ⟨topic of foreachBatch⟩

One line of JSON: what failed, and how often each batch was written. Master local[2,4], so that
tasks are tried again; the shuffle has no order, and each run has another number of partitions.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import pipeline
from pipeline.requirements import local_session

ROWS = 4000
SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.sql.adaptive.enabled": "true",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def shaken(
    folder: str, name: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows in random order; the first attempt of one task fails behind half of them."""

    def shake(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches)) if batches else None
        if table is None or not table.num_rows:
            return
        order = random.sample(range(table.num_rows), table.num_rows)
        found = table.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=200)
        for number, batch in enumerate(found):
            if number == len(found) // 2:
                try:
                    (Path(folder) / f"failed-{name}").touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    raise RuntimeError("this attempt fails half way")
            yield batch

    return shake


def main() -> None:
    servers, folder, streamed, each = sys.argv[1:]
    options = {"bootstrap.servers": servers}
    writes: list[int] = []
    with local_session("shuffling", master="local[2,4]", settings=SESSION) as spark:
        pipeline.register(spark)
        numbers = spark.range(0, ROWS, 1, 4).selectExpr("CAST(id AS STRING) AS value")
        numbers.coalesce(1).write.text(f"{folder}/in")

        def frame(partitions: int, name: str) -> Any:
            text = spark.readStream.schema("value STRING").text(f"{folder}/in")
            mixed = text.repartition(partitions)
            return mixed.mapInArrow(shaken(folder, name), "value STRING")

        def run(writer: Any, name: str) -> None:
            writer = writer.option("checkpointLocation", f"{folder}/checkpoint-{name}")
            assert writer.trigger(availableNow=True).start().awaitTermination(400)

        def write_batch(batch: Any, number: int) -> None:
            writes.append(number)
            known = {"topic": each, "txnAppId": "shuffling", "txnVersion": str(number)}
            batch.write.format("dledger").options(**options, **known).mode("append").save()

        for number, partitions in enumerate((4, 3)):
            rows = frame(partitions, f"stream-{number}")
            run(rows.writeStream.format("dledger").options(**options, topic=streamed), "stream")
            rows = frame(partitions, f"each-{number}")
            run(rows.writeStream.foreachBatch(write_batch), "each")
            for name in ("stream", "each"):
                _take_back(Path(folder) / f"checkpoint-{name}" / "commits")
    failed = sorted(path.name for path in Path(folder).glob("failed-*"))
    sys.stdout.write(f"{json.dumps({'failed': failed, 'writes': writes})}\n")


def _take_back(commits: Path) -> None:
    """The newest batch counts as not written: the query computes it again."""
    newest = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
