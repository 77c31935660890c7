"""Ten jobs as people write them for Kafka's connector; only format and options are ours.

Each job is a function of a session and of `Place`, which has the format and the options. Nothing
else of the job knows where its rows are.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark, from the extra dledger[spark]")

from pyspark.sql.functions import window

from cluster.client import blocking
from cluster.local.launcher import LocalCluster
from pipeline.options import OptionError

FORMAT = "dledger"
COUNT = 60


@dataclass(frozen=True)
class Place:
    """`read`, `write`: options with the names that Kafka's connector has, and `schemaStyle`."""

    servers: str
    first: str
    second: str
    folder: Path

    def read(self, topic: str = "", **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": topic or self.first,
            "startingOffsets": "earliest",
            "schemaStyle": "kafka",
            "kafka.max.poll.records": "500",
            "groupIdPrefix": "ported",
            **more,
        }

    def write(self, **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "schemaStyle": "kafka",
            "kafka.acks": "all",
            "kafka.compression.type": "lz4",
            **more,
        }


@pytest.fixture
def place(spark: Any, local_cluster: LocalCluster, tmp_path: Path) -> Place:
    first, second = (f"ported-{uuid.uuid4().hex[:8]}" for _ in range(2))
    with blocking.connect(local_cluster.nameserver) as mq:
        for topic in (first, second):
            mq.admin().create_topic(topic, 3)
    found = Place(local_cluster.nameserver, first, second, tmp_path)
    rows = spark.range(0, COUNT, 1, 2).selectExpr(
        "CAST(id % 5 AS STRING) AS key",
        "to_json(named_struct('id', id, 'user', id % 5, 'amount', id * 10)) AS value",
        "array(named_struct('key', 'source', 'value', CAST('seed' AS BINARY))) AS headers",
    )
    rows.write.format(FORMAT).options(**found.write(topic=first)).mode("append").save()
    return found


def rows_of(spark: Any, place: Place, topic: str, **more: str) -> list[Any]:
    return list(spark.read.format(FORMAT).options(**place.read(topic, **more)).load().collect())


def to_topic(frame: Any, place: Place, name: str, mode: str = "append") -> None:
    query = frame.writeStream.format(FORMAT).options(**place.write(topic=place.second))
    query = query.option("checkpointLocation", str(place.folder / name)).outputMode(mode)
    query.trigger(availableNow=True).start().awaitTermination()


def test_job_1_counts_by_key(spark: Any, place: Place) -> None:
    frame = spark.read.format(FORMAT).options(**place.read()).load()
    found = frame.selectExpr("CAST(key AS STRING) AS k").groupBy("k").count().collect()
    assert {row.k: row["count"] for row in found} == {str(n): COUNT // 5 for n in range(5)}


def test_job_2_archives_a_stream_as_parquet(spark: Any, place: Place) -> None:
    frame = spark.readStream.format(FORMAT).options(**place.read()).load()
    query = frame.selectExpr("topic", "partition", "offset", "timestamp", "CAST(value AS STRING)")
    query = query.writeStream.format("parquet").option("path", str(place.folder / "out"))
    query = query.option("checkpointLocation", str(place.folder / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet(str(place.folder / "out"))
    assert found.select("partition", "offset").distinct().count() == COUNT == found.count()


def test_job_3_writes_sums_of_windows_back(spark: Any, place: Place) -> None:
    """A watermark from the rows' own times, and append mode: each window once, when it is over."""
    frame = spark.readStream.format(FORMAT).options(**place.read()).load()
    sums = (
        frame.selectExpr("from_json(CAST(value AS STRING), 'id INT, amount LONG') AS v")
        .selectExpr("timestamp_seconds(v.id) AS at", "v.amount AS amount")
        .withWatermark("at", "0 seconds")
        .groupBy(window("at", "10 seconds"))
        .sum("amount")
        .selectExpr("CAST(unix_seconds(window.start) AS STRING) AS key", "`sum(amount)` AS total")
    )
    out = sums.selectExpr("key", "CAST(total AS STRING) AS value")
    to_topic(out, place, "sums")
    found = [(int(row.key), int(row.value)) for row in rows_of(spark, place, place.second)]
    over = [(first, 10 * sum(range(first, first + 10))) for first in range(0, COUNT - 10, 10)]
    assert sorted(found) == over, "the last window is not over yet"


def test_update_mode_is_not_for_sinks_in_python(spark: Any, place: Place) -> None:
    """Spark asks sinks for a trait that Python's cannot have. Look again when Spark changes."""
    counts = spark.readStream.format(FORMAT).options(**place.read()).load().groupBy("key").count()
    with pytest.raises(Exception, match="does not support Update mode"):
        to_topic(counts.selectExpr("key", "CAST(count AS STRING) AS value"), place, "up", "update")


def test_job_4_writes_counts_back_in_complete_mode(spark: Any, place: Place) -> None:
    frame = spark.readStream.format(FORMAT).options(**place.read()).load()
    counts = frame.groupBy("key").count()
    to_topic(counts.selectExpr("key", "CAST(count AS STRING) AS value"), place, "all", "complete")
    found = {bytes(row.key): bytes(row.value) for row in rows_of(spark, place, place.second)}
    assert found == {b"%d" % n: b"%d" % (COUNT // 5) for n in range(5)}
    unkeyed = counts.selectExpr("CAST(count AS STRING) AS value")
    with pytest.raises(Exception, match="without a column key"):
        to_topic(unkeyed, place, "unkeyed", "complete")


def test_job_5_copies_partitions_and_headers(spark: Any, place: Place) -> None:
    frame = spark.readStream.format(FORMAT).options(**place.read(includeHeaders="true")).load()
    to_topic(frame.select("key", "value", "partition", "headers"), place, "copy")

    def identity(topic: str) -> Counter[Any]:
        rows = rows_of(spark, place, topic, includeHeaders="true")
        return Counter(
            (
                bytes(r.key),
                bytes(r.value),
                r.partition,
                tuple((h.key, bytes(h.value)) for h in r.headers),
            )
            for r in rows
        )

    assert identity(place.second) == identity(place.first)
    assert {row[3] for row in identity(place.first)} == {(("source", b"seed"),)}


def test_job_6_writes_the_whole_row_that_it_read(spark: Any, place: Place) -> None:
    """Offsets and times are columns that a sink has no use for, and its topic counts."""
    frame = spark.read.format(FORMAT).options(**place.read()).load()
    frame.write.format(FORMAT).options(**place.write(topic=place.second)).mode("append").save()
    found = rows_of(spark, place, place.second)
    assert Counter(bytes(row.value) for row in found) == Counter(
        bytes(row.value) for row in rows_of(spark, place, place.first)
    )
    refusing = place.write(topic=place.second, extraColumns="refuse")
    with pytest.raises(Exception, match="column 'offset' cannot be written"):
        frame.write.format(FORMAT).options(**refusing).mode("append").save()


def test_job_7_keeps_tombstones_and_keys_of_bytes(spark: Any, place: Place) -> None:
    rows = spark.sql(
        "SELECT X'FF0001' AS key, CAST(NULL AS BINARY) AS value, NULL AS partition UNION ALL "
        "SELECT X'', X'', 2 UNION ALL SELECT CAST(NULL AS BINARY), X'00', 1"
    ).selectExpr("key", "value", "CAST(partition AS INT) AS partition")
    rows.write.format(FORMAT).options(**place.write(topic=place.second)).mode("append").save()
    found = {
        (
            row.key and bytes(row.key) if row.key is not None else None,
            None if row.value is None else bytes(row.value),
        )
        for row in rows_of(spark, place, place.second)
    }
    assert found == {(b"\xff\x00\x01", None), (b"", b""), (None, b"\x00")}
    places = {row.partition for row in rows_of(spark, place, place.second) if row.value is not None}
    assert places == {1, 2}


def test_job_8_enriches_by_foreach_batch(spark: Any, place: Place) -> None:
    users = spark.createDataFrame([(n, f"name-{n}") for n in range(5)], "user INT, name STRING")

    def publish(batch: Any, number: int) -> None:
        out = batch.join(users, "user").selectExpr("name AS key", "to_json(struct(*)) AS value")
        sink = place.write(topic=place.second, txnAppId="enrich", txnVersion=str(number))
        out.write.format(FORMAT).options(**sink).mode("append").save()

    frame = spark.readStream.format(FORMAT).options(**place.read()).load()
    parsed = frame.selectExpr("from_json(CAST(value AS STRING), 'id INT, user INT') AS v")
    query = parsed.select("v.*").writeStream.foreachBatch(publish)
    query = query.option("checkpointLocation", str(place.folder / "each"))
    query.trigger(availableNow=True).start().awaitTermination()
    found = [json.loads(row.value) for row in rows_of(spark, place, place.second)]
    assert sorted(row["id"] for row in found) == list(range(COUNT))
    assert all(row["name"] == f"name-{row['user']}" for row in found)


def test_job_9_sends_rows_to_the_topic_that_each_names(spark: Any, place: Place) -> None:
    third = f"ported-{uuid.uuid4().hex[:8]}"
    rows = spark.range(10).selectExpr(
        f"IF(id % 2 = 0, '{place.second}', '{third}') AS topic", "CAST(id AS STRING) AS value"
    )
    with pytest.raises(Exception, match=f"there is no topic {third}"):
        rows.write.format(FORMAT).options(**place.write()).mode("append").save()
    rows.write.format(FORMAT).options(**place.write(createTopic="true")).mode("append").save()
    for topic, rest in ((place.second, 0), (third, 1)):
        found = sorted(int(row.value) for row in rows_of(spark, place, topic))
        assert found == list(range(rest, 10, 2))


def test_job_10_reads_a_range_of_offsets_of_each_partition(spark: Any, place: Place) -> None:
    ends = {row.partition: row.offset for row in rows_of(spark, place, place.first)}
    ends = {
        queue: max(r.offset for r in rows_of(spark, place, place.first) if r.partition == queue)
        for queue in ends
    }
    starts = json.dumps(
        {place.first: {str(queue): 2 if queue in ends else -2 for queue in range(3)}}
    )
    stops = json.dumps({place.first: {str(queue): ends.get(queue, -1) for queue in range(3)}})
    found = rows_of(spark, place, place.first, startingOffsets=starts, endingOffsets=stops)
    assert Counter((row.partition, row.offset) for row in found) == Counter(
        (queue, offset) for queue, end in ends.items() for offset in range(2, end)
    )


def test_a_schema_that_does_not_fit_is_refused_at_once(spark: Any, place: Place) -> None:
    """And the one that rows have is taken."""
    reader = spark.read.format(FORMAT).options(**place.read(columns="key,value"))
    assert reader.schema("key BINARY, value BINARY").load().count() == COUNT
    for wrong, said in (
        ("key STRING, value BINARY", "its column key is string and messages have binary"),
        ("key BINARY, colour STRING", "there is no column colour"),
        ("value BINARY, key BINARY", "its columns are others"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format(FORMAT).options(**place.read(columns="key,value")).schema(
                wrong
            ).load().count()


def test_a_topic_that_is_not_there_is_refused_before_the_write(spark: Any, place: Place) -> None:
    from pipeline.sink.writer import batch_writer

    name = f"ported-{uuid.uuid4().hex[:8]}"
    with pytest.raises(OptionError, match=f"there is no topic {name}; make it"):
        batch_writer(place.write(topic=name), {"value": "string"}, False)
    batch_writer(place.write(topic=name, createTopic="true"), {"value": "string"}, False)
    with blocking.connect(place.servers) as mq:
        assert mq.admin().describe_topic(name).message_count == 0
