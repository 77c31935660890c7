"""Columns that are read and never used are named, by the plan of a real Spark."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark, from the extra dledger[spark]")

from pipeline.jobs.archive import archive
from pipeline.watching.columns import unused_columns, watch_columns
from tests.waiting import wait_until

from ..jobs.stores import put


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with 30 messages."""
    folder = tmp_path_factory.mktemp("unused")
    put(folder / "store", range(30))
    archive(folder / "store", folder / "root")
    return folder / "root"


def test_the_plan_says_what_is_used(spark: Any, root: Path) -> None:
    def used(frame: Any) -> list[tuple[str, ...]]:
        found = unused_columns(frame)
        assert {row.source for row in found} <= {"dledger-archive"}
        assert all(set(row.used).isdisjoint(row.unused) and row.unused for row in found)
        return sorted(row.used for row in found)

    frame = spark.read.format("dledger-archive").load(str(root))
    few = spark.read.format("dledger-archive").option("columns", "topic,value").load(str(root))
    stream = spark.readStream.format("dledger-archive").load(str(root))
    assert used(frame) == []
    assert used(few) == []
    assert used(few.groupBy("topic", "value").count()) == []
    assert used(frame.filter("queue = 1").select("value")) == [("queue", "value")]
    assert used(stream.select("offset")) == [("offset",)]
    assert used(frame.groupBy().count()) == [()]
    assert used(frame.select("value", "topic").distinct().select("value")) == [("topic", "value")]
    assert used(frame.repartition(2, "queue").select("value")) == [("queue", "value")]
    assert used(frame.join(few, "topic").select("offset")) == [("topic",), ("topic", "offset")]
    both = frame.select("topic").union(frame.select("topic"))
    assert used(both) == [("topic",), ("topic",)]
    assert used(frame.unionByName(few, allowMissingColumns=True)) == []
    assert used(spark.range(3)) == []


def test_a_session_that_is_watched_warns_once_of_each(
    spark: Any, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "pipeline.watching.columns")
    watch_columns(spark)
    frame = spark.read.format("dledger-archive").load(str(root))
    for _ in range(2):
        assert len(frame.select("value").collect()) == 30
    wait_until(lambda: caplog.messages, "the batch is told of")
    stream = spark.readStream.format("dledger-archive").load(str(root)).select("topic", "queue")
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.start()
    try:
        query.processAllAvailable()
        wait_until(lambda: len(caplog.messages) > 1, "the stream is told of")
    finally:
        query.stop()
    batch, streamed = caplog.messages
    assert "dledger-archive reads columns that the query never uses: topic, queue," in batch
    assert '.option("columns", "value") does' in batch
    assert '.option("columns", "topic,queue") does' in streamed
