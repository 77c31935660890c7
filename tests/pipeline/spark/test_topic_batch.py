"""`format("dledger")` read as a batch in a real Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster

from ..source.filled import Message, expected, fill, new_topic


class Topic:
    """One filled topic, read by Spark."""

    def __init__(self, spark: Any, cluster: LocalCluster) -> None:
        self.spark, self.cluster = spark, cluster
        self.name = new_topic(cluster)
        self.messages: list[Message] = fill(cluster, self.name, 120)

    def frame(self, **given: str) -> Any:
        reader = self.spark.read.format("dledger").option("subscribe", self.name)
        reader = reader.option("bootstrap.servers", self.cluster.nameserver)
        return reader.options(**given).load()


@pytest.fixture(scope="module")
def topic(spark: Any, local_cluster: LocalCluster) -> Topic:
    return Topic(spark, local_cluster)


def _identity(frame: Any) -> list[tuple[int, int, bytes]]:
    return sorted((r.queue, r.offset, bytes(r.value)) for r in frame.collect())


def test_rows_are_the_messages(topic: Topic) -> None:
    frame = topic.frame()
    assert _identity(frame) == expected(topic.messages)
    assert frame.dtypes[:6] == [
        *(("key", "binary"), ("value", "binary"), ("topic", "string"), ("queue", "int")),
        *(("offset", "bigint"), ("timestamp", "timestamp")),
    ]
    row = frame.where("queue = 0 and offset = 0").first()
    sent = topic.messages[0]
    assert (bytes(row.key), row.tags, row.properties["n"]) == (
        sent.key.encode(),
        sent.tag,
        sent.key[1:],
    )


def test_kafkas_names_with_headers(topic: Topic) -> None:
    frame = topic.frame(schemaStyle="kafka", includeHeaders="true")
    assert frame.columns[3:] == ["partition", "offset", "timestamp", "timestampType", "headers"]
    first = frame.orderBy("partition", "offset").first()
    headers = {pair.key: bytes(pair.value) for pair in first.headers}
    assert headers["n"] == topic.messages[0].key[1:].encode()


def test_tasks_follow_the_partition_options(topic: Topic) -> None:
    assert topic.frame().rdd.getNumPartitions() == 1
    wide = topic.frame(minPartitions="6", columns="queue,offset,value")
    assert wide.rdd.getNumPartitions() == 6
    assert _identity(wide) == expected(topic.messages)


def test_sql_and_aggregation(topic: Topic) -> None:
    topic.spark.sql(
        f"CREATE OR REPLACE TEMP VIEW orders USING dledger OPTIONS "
        f"(subscribe '{topic.name}', `bootstrap.servers` '{topic.cluster.nameserver}')"
    )
    counts = topic.spark.sql("SELECT tags, count(*) FROM orders GROUP BY tags ORDER BY tags")
    assert [tuple(row) for row in counts.collect()] == [("a", 40), ("b", 40), ("c", 40)]


def test_tags_are_filtered_by_the_broker(topic: Topic) -> None:
    wanted = [m for m in topic.messages if m.tag == "b"]
    assert _identity(topic.frame(subExpression="b")) == expected(wanted)


def test_offsets_of_each_queue(topic: Topic) -> None:
    start = json.dumps({topic.name: {str(queue): 28 for queue in range(4)}})
    found = topic.frame(startingOffsets=start)
    assert _identity(found) == expected([m for m in topic.messages if m.offset >= 28])


def test_comparisons_are_pushed_down(topic: Topic) -> None:
    topic.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = topic.frame(filterPushdown="true", minPartitions="4")
        found = frame.where("queue = 2 and offset >= 10 and offset < 20")
        kept = [m for m in topic.messages if m.queue == 2 and 10 <= m.offset < 20]
        assert _identity(found) == expected(kept)
    finally:
        topic.spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_an_empty_topic_is_an_empty_frame(spark: Any, topic: Topic) -> None:
    empty = new_topic(topic.cluster)
    reader = spark.read.format("dledger").option("subscribe", empty)
    assert reader.option("servers", topic.cluster.nameserver).load().count() == 0


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"colour": "red"}, "unknown option 'colour'"),
        ({"subscribePattern": "x"}, "2 of subscribe, subscribePattern and assign"),
        ({"columns": "bodie"}, "no column 'bodie'"),
    ],
)
def test_a_wrong_option_is_said_before_anything_runs(
    topic: Topic, given: dict[str, str], what: str
) -> None:
    with pytest.raises(Exception, match=what):
        topic.frame(**given)


def test_data_loss_ends_the_query_or_is_skipped(topic: Topic) -> None:
    start = json.dumps({topic.name: {"0": 999, "1": -2, "2": -2, "3": -2}})
    with pytest.raises(Exception, match="failOnDataLoss"):
        topic.frame(startingOffsets=start).count()
    kept = [m for m in topic.messages if m.queue]
    found = topic.frame(startingOffsets=start, failOnDataLoss="false")
    assert _identity(found) == expected(kept)
