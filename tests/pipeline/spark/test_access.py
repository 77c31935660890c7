"""A cluster that speaks nothing but TLS and wants an account, written and read from Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster
from pipeline.sink.driver import prepare_write
from pipeline.sink.options import sink_options

from ..source.guarded import MASTER, READER, SENT, TLS, WRITER, guarded_cluster

MORE = 30
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def guarded(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[LocalCluster]:
    hosts = [new_address() for _ in range(4)]
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), hosts, "enforcing") as cluster:
        yield cluster


def test_rows_there_and_back(spark: Any, guarded: LocalCluster, tmp_path: Path) -> None:
    """Written as a batch by one account, read as a stream and as a batch by another."""
    options = sink_options({"servers": guarded.nameserver, "topic": "orders", **TLS, **MASTER})
    prepare_write(options)  # an administrator makes the topic
    frame = spark.range(SENT, SENT + MORE, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format("dledger").options(**TLS, **WRITER)
    writer.options(servers=guarded.nameserver, topic="orders").mode("append").save()
    given = {"servers": guarded.nameserver, "subscribe": "orders", **TLS, **READER}
    batch = spark.read.format("dledger").options(**given).load()
    stream = spark.readStream.format("dledger").options(startingOffsets="earliest", **given).load()
    query = stream.writeStream.format("parquet").option("path", f"{tmp_path}/table")
    query = query.option("checkpointLocation", f"{tmp_path}/checkpoint")
    assert query.trigger(availableNow=True).start().awaitTermination(60)
    for found in (batch, spark.read.parquet(f"{tmp_path}/table")):
        numbers = sorted(int(row.value) for row in found.select("value").collect())
        assert numbers == list(range(SENT + MORE))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**TLS}, "wants an account"),
        ({**TLS, **READER, "client.secretKey": "guessed"}, "signature"),
        ({"client.tls": "true", **READER}, "certificate"),
    ],
)
def test_strangers_are_told_why(
    spark: Any, guarded: LocalCluster, given: dict[str, str], said: str
) -> None:
    where = {"servers": guarded.nameserver, "subscribe": "orders", "numRetries": "1"}
    with pytest.raises(Exception, match=said):
        spark.read.format("dledger").options(**where, **given).load().count()


def test_who_may_only_read_writes_nothing(spark: Any, guarded: LocalCluster) -> None:
    account = {key: text for key, text in READER.items() if key != "groupId"}
    writer = (
        spark.range(0, 1, 1, 1).selectExpr("CAST(id AS STRING) AS value").write.format("dledger")
    )
    writer = writer.options(servers=guarded.nameserver, topic="orders", **TLS, **account)
    with pytest.raises(Exception, match=r"exactly once (stages|keeps)"):
        writer.mode("append").save()
    with pytest.raises(Exception, match="no PUB of topic orders"):
        writer.option("delivery", "at-least-once").mode("append").save()
