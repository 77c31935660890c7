"""`dledger-log` in a real Spark: rows, columns, pieces, errors, SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from commitlog.store.reader import StoreReader

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
STORE = GOLDEN / "dledger" / "dledger-broker" / "store"


@pytest.fixture(scope="module")
def messages() -> list[Any]:
    with StoreReader(STORE) as reader:
        return [item.message for item in reader.items() if item.message is not None]


def test_rows_are_the_messages(spark: Any, messages: list[Any]) -> None:
    rows = spark.read.format("dledger-log").load(str(STORE)).orderBy("physical_offset").collect()
    assert [(r.topic, r.queue, r.offset, bytes(r.value)) for r in rows] == [
        (m.topic, m.queue_id, m.queue_offset, bytes(m.body)) for m in messages
    ]
    assert [dict(r.properties) for r in rows] == [dict(m.properties) for m in messages]


def test_pieces_become_partitions(spark: Any, messages: list[Any]) -> None:
    reader = spark.read.format("dledger-log").option("bytesPerPartition", "4096")
    frame = reader.option("columns", "topic,queue").load(str(STORE))
    assert frame.columns == ["topic", "queue"]
    assert frame.rdd.getNumPartitions() > 5
    assert frame.count() == len(messages)


def test_sql_finds_it(spark: Any, messages: list[Any]) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW log USING `dledger-log` OPTIONS (path '{STORE}')")
    ((count, topics),) = spark.sql("SELECT count(*), count(DISTINCT topic) FROM log").collect()
    assert count == len(messages)
    assert topics == len({m.topic for m in messages})


def test_a_wrong_option_is_said_before_anything_runs(spark: Any) -> None:
    with pytest.raises(Exception, match="unknown option 'colour'"):
        spark.read.format("dledger-log").option("colour", "red").load(str(STORE))


def test_no_store_is_said(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is no store"):
        spark.read.format("dledger-log").load(str(tmp_path)).count()
