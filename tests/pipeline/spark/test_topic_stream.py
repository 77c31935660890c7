"""`format("dledger")` read as a stream: limits, restarts, lag, changed options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.client.blocking import connect
from cluster.local.launcher import LocalCluster
from cluster.protocol.headers import QueryConsumerOffsetRequest, decode, encode

from ..source.filled import expected, fill, new_topic, options


class Stream:
    """One topic, a table and a checkpoint; each `run` is a query that drains the topic."""

    def __init__(self, spark: Any, cluster: LocalCluster, folder: Path) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        self.topic = new_topic(cluster)

    def query(self, **given: str) -> Any:
        reader = self.spark.readStream.format("dledger").option("subscribe", self.topic)
        reader = reader.option("bootstrap.servers", self.cluster.nameserver)
        reader = reader.options(**{"startingOffsets": "earliest", **given})
        writer = reader.load().writeStream.format("parquet").option("path", f"{self.folder}/table")
        writer = writer.option("checkpointLocation", f"{self.folder}/checkpoint")
        return writer.trigger(availableNow=True).start()

    def run(self, **given: str) -> list[Any]:
        """Progress of every micro-batch that had rows."""
        query = self.query(**given)
        assert query.awaitTermination(60)
        return [batch for batch in query.recentProgress if batch.numInputRows]

    def table(self) -> list[tuple[int, int, bytes]]:
        rows = self.spark.read.parquet(f"{self.folder}/table").collect()
        return sorted((r.queue, r.offset, bytes(r.value)) for r in rows)


@pytest.fixture
def stream(spark: Any, local_cluster: LocalCluster, tmp_path: Path) -> Stream:
    return Stream(spark, local_cluster, tmp_path)


@pytest.mark.long
def test_everything_once_over_a_restart(stream: Stream) -> None:
    sent = fill(stream.cluster, stream.topic, 40)
    (first,) = stream.run()
    assert first.numInputRows == 40
    sent += fill(stream.cluster, stream.topic, 24, first=40)
    (second,) = stream.run()
    assert second.numInputRows == 24
    assert stream.table() == expected(sent)
    end = json.loads(second.sources[0].endOffset)
    assert end[stream.topic] == {f"broker-a/{queue}": 16 for queue in range(4)}
    assert end["$dledger"]["version"] == 1


def test_available_now_drains_in_limited_batches_and_tells_the_lag(stream: Stream) -> None:
    sent = fill(stream.cluster, stream.topic, 100)
    batches = stream.run(maxOffsetsPerTrigger="40")
    assert [batch.numInputRows for batch in batches] == [40, 40, 20]
    assert stream.table() == expected(sent)
    source = batches[0].sources[0]
    ends, latest = (
        json.loads(text)[stream.topic] for text in (source.endOffset, source.latestOffset)
    )
    assert sum(latest.values()) - sum(ends.values()) == 60, "what still waits is seen"


@pytest.mark.long
def test_bytes_limit_a_micro_batch(stream: Stream) -> None:
    sent = fill(stream.cluster, stream.topic, 60)
    batches = stream.run(maxBytesPerTrigger="6k")
    assert 2 < len(batches) < 30
    assert stream.table() == expected(sent)


def test_few_messages_wait_for_more_but_not_for_ever(stream: Stream) -> None:
    from pipeline.source.stream import TopicStreamReader

    def taken(delay: str) -> int:
        given = {"subscribe": stream.topic, "startingOffsets": "earliest"}
        given |= {"minOffsetsPerTrigger": "10", "maxTriggerDelay": delay}
        reader = TopicStreamReader(options(stream.cluster, given, streaming=True))
        end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        return sum(end[stream.topic].values())

    fill(stream.cluster, stream.topic, 9)
    assert (taken("1h"), taken("0ms")) == (0, 9)
    fill(stream.cluster, stream.topic, 1, first=9)
    assert taken("1h") == 10


@pytest.mark.long
def test_a_changed_option_is_refused_on_restart(stream: Stream) -> None:
    fill(stream.cluster, stream.topic, 8)
    stream.run()
    fill(stream.cluster, stream.topic, 8, first=8)
    with pytest.raises(Exception, match="bytesPerPartition was not given when the checkpoint"):
        stream.run(bytesPerPartition="1k")
    (after,) = stream.run(maxOffsetsPerTrigger="1000")
    assert after.numInputRows == 8, "limits may change"


@pytest.mark.long
def test_a_new_queue_begins_at_its_first_message(stream: Stream) -> None:
    sent = fill(stream.cluster, stream.topic, 8)
    stream.run()
    with connect(stream.cluster.nameserver) as mq:
        mq.admin().alter_topic(stream.topic, 6)
    sent += fill(stream.cluster, stream.topic, 12, first=8)
    stream.run()
    assert stream.table() == expected(sent)


@pytest.mark.long
def test_a_deleted_topic_is_said(stream: Stream) -> None:
    fill(stream.cluster, stream.topic, 8)
    stream.run()
    _delete(stream)
    with pytest.raises(Exception, match="does not exist"):
        stream.run()


@pytest.mark.long
def test_a_topic_made_again_goes_on(stream: Stream) -> None:
    """Our brokers go on counting; of one that begins at 0 again see test_trouble."""
    sent = fill(stream.cluster, stream.topic, 20)
    stream.run()
    _delete(stream)
    with connect(stream.cluster.nameserver) as mq:
        mq.admin().create_topic(stream.topic, 4)
    sent += fill(stream.cluster, stream.topic, 8, first=100)
    (batch,) = stream.run()
    assert batch.numInputRows == 8
    assert stream.table() == expected(sent)


def test_positions_are_copied_to_a_group(stream: Stream) -> None:
    fill(stream.cluster, stream.topic, 20)
    group = {"groupId": f"G{stream.topic}", "commitOffsetsToGroup": "true"}
    stream.run(maxOffsetsPerTrigger="12", **group)
    assert sum(_group_offsets(stream, group["groupId"])) == 12, "it lags one batch"
    fill(stream.cluster, stream.topic, 4, first=20)
    stream.run(**group)
    assert sum(_group_offsets(stream, group["groupId"])) == 20


def _group_offsets(stream: Stream, group: str) -> list[int]:
    from cluster.protocol.codes import RequestCode
    from cluster.protocol.headers import OffsetResponse
    from pipeline.source.remote import remote

    place = remote(options(stream.cluster, {"subscribe": stream.topic}))
    found = []
    for queue in range(4):
        ext = encode(QueryConsumerOffsetRequest(group, stream.topic, queue, True))
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = place.run(place.ask("broker-a", stream.topic, code, ext))
        found.append(decode(OffsetResponse, answer.ext).offset)
    return found


def _delete(stream: Stream) -> None:
    from cluster.protocol.codes import RequestCode
    from pipeline.source.remote import remote

    place = remote(options(stream.cluster, {"subscribe": stream.topic}))
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    place.run(place.ask("broker-a", stream.topic, code, {"topic": stream.topic}))
