"""`format("dledger-archive")` in a real Spark: a batch, and a stream that follows the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.jobs.archive import archive

from ..jobs.stores import put


def _values(spark: Any, table: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(table)).collect())


def test_a_batch_and_a_stream_that_follows(spark: Any, tmp_path: Path) -> None:
    store, root, table = tmp_path / "store", tmp_path / "root", tmp_path / "table"
    put(store, range(60))
    archive(store, root)
    frame = spark.read.format("dledger-archive").option("topic", "even").load(str(root))
    assert sorted(int(row.value) for row in frame.collect()) == list(range(0, 60, 2))

    def follow() -> int:
        stream = spark.readStream.format("dledger-archive").option("maxFilesPerTrigger", "4")
        writer = stream.load(str(root)).select("value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("path", str(table)).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        return int(query.lastProgress["batchId"])

    assert follow() == 1  # six files, four at a time
    assert _values(spark, table) == list(range(60))
    put(store, range(60, 90))
    archive(store, root)
    follow()
    assert _values(spark, table) == list(range(90))
