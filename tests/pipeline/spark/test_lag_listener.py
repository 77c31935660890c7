"""A real query's lag: by the listener, and by HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark, from the extra dledger[spark]")

from cluster.local.launcher import LocalCluster
from pipeline.watching.listener import LagListener
from tests.waiting import wait_until

from ..source.filled import fill, new_topic


def test_a_query_that_is_behind_is_seen_until_it_ends(
    spark: Any, local_cluster: LocalCluster, tmp_path: Path
) -> None:
    """It takes 8 of 48 messages, and then waits within its second micro-batch."""
    topic = new_topic(local_cluster)
    fill(local_cluster, topic, 48)
    lag = LagListener(servers=local_cluster.nameserver)
    spark.streams.addListener(lag)
    host, port = lag.serve(0)
    gate = tmp_path / "go on"

    def hold(batch: Any, number: int) -> None:
        batch.count()
        if number:
            wait_until(gate.exists, "the gate opens")

    frame = spark.readStream.format("dledger").option("servers", local_cluster.nameserver)
    frame = frame.option("subscribe", topic).option("startingOffsets", "earliest")
    frame = frame.option("maxOffsetsPerTrigger", "8").load()
    query = frame.writeStream.queryName("held").foreachBatch(hold)
    query = (
        query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    )
    try:
        wait_until(lambda: lag.rows() and lag.rows()[0].topics[0].messages == 40, "it is told")
        (row,) = lag.rows()
        (found,) = row.topics
        assert (row.query, found.topic, found.queues) == ("held", topic, 4)
        assert found.least <= found.mean == 10 <= found.most
        assert found.seconds is not None
        assert 0 < found.seconds < 3600
        assert found.row_bytes
        with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
            text = answer.read().decode()
        assert f'dledger_spark_lag_messages{{query="held",topic="{topic}"}} 40\n' in text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{host}:{port}/")
    finally:
        gate.touch()
        query.awaitTermination()
        wait_until(lambda: not lag.rows(), "the query that ended is forgotten")
        spark.streams.removeListener(lag)
        lag.close()


def test_without_servers_messages_alone_are_told(spark: Any) -> None:
    assert LagListener().metrics() == ""
    with pytest.raises(ValueError, match=r"client\.colour"):
        LagListener(servers="127.0.0.1:9876", options={"client.colour": "red"})
