"""Batch reads of a running cluster, planned and read without Spark."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.client.blocking import connect
from cluster.errors import SubscriptionInvalid, TopicNotFound
from cluster.local.launcher import LocalCluster
from pipeline.options import OptionError
from pipeline.source.bounds import DataLoss
from pipeline.source.options import source_options
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.pushdown import Narrowed, narrow
from pipeline.source.remote import SourceError, remote
from tests.pipeline.clock import next_millisecond

from .filled import Message, expected, fill, identity, new_topic, options, rows


class Filled:
    """One topic of four queues with 40 messages, all stored before `ends_ms`."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.topic = cluster, new_topic(cluster)
        self.first = fill(cluster, self.topic, 20)
        self.middle_ms = next_millisecond()
        next_millisecond()
        self.messages: list[Message] = sorted(
            [*self.first, *fill(cluster, self.topic, 20, first=20)]
        )

    def rows(self, **given: str) -> list[dict[str, object]]:
        return rows(options(self.cluster, {"subscribe": self.topic, **given}))

    def each(self, *numbers: int) -> str:
        return json.dumps({self.topic: {str(n): value for n, value in enumerate(numbers)}})


@pytest.fixture(scope="module")
def filled(local_cluster: LocalCluster) -> Filled:
    return Filled(local_cluster)


@pytest.mark.parametrize("fetch", ["pull", "raw"])
def test_every_message_once_with_all_it_has(filled: Filled, fetch: str) -> None:
    found = filled.rows(fetch=fetch, includeHeaders="true")
    assert identity(found) == expected(filled.messages)
    by_place = {(m.queue, m.offset): m for m in filled.messages}
    for row in found:
        sent = by_place[row["queue"], row["offset"]]  # type: ignore[index]
        properties = dict(row["properties"])  # type: ignore[call-overload]
        assert (row["topic"], row["key"], row["keys"]) == (
            filled.topic,
            sent.key.encode(),
            sent.key,
        )
        assert row["tags"] == sent.tag
        assert properties["n"] == sent.key[1:]
        headers = {pair["key"]: pair["value"] for pair in row["headers"]}  # type: ignore[attr-defined]
        assert headers["n"] == sent.key[1:].encode()
        assert row["timestamp"] >= row["born_timestamp"]  # type: ignore[operator]


@pytest.mark.parametrize("fetch", ["pull", "raw"])
def test_kafkas_columns(filled: Filled, fetch: str) -> None:
    found = filled.rows(schemaStyle="kafka", fetch=fetch)
    assert {row["timestampType"] for row in found} == {1}
    assert {row["partition"] for row in found} == {0, 1, 2, 3}
    assert set(found[0]) == {
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    }


@pytest.mark.parametrize("fetch", ["pull", "raw"])
def test_tasks_of_any_size_read_the_same(filled: Filled, fetch: str) -> None:
    for size in ("200", "1000", "5k"):
        assert identity(filled.rows(bytesPerPartition=size, fetch=fetch)) == expected(
            filled.messages
        )


def test_no_task_has_more_records_than_wanted(filled: Filled) -> None:
    given = {"subscribe": filled.topic, "recordsPerPartition": "7"}
    found = options(filled.cluster, given)
    place = remote(found)
    planned = tasks(place, found, batch_ranges(place, found))
    assert max(sum(item.size for item in task) for task in planned) <= 7
    assert identity(filled.rows(recordsPerPartition="7")) == expected(filled.messages)


def test_a_plan_is_repeated_exactly(filled: Filled) -> None:
    found = options(filled.cluster, {"subscribe": filled.topic, "bytesPerPartition": "1k"})
    place = remote(found)
    plans = [tasks(place, found, batch_ranges(place, found)) for _ in range(2)]
    assert plans[0] == plans[1]
    assert len(plans[0]) > 4


def test_starting_and_ending_offsets(filled: Filled) -> None:
    found = filled.rows(
        startingOffsets=filled.each(3, -2, 10, 9), endingOffsets=filled.each(5, 2, -1, -1)
    )
    places = sorted((row["queue"], row["offset"]) for row in found)  # type: ignore[type-var]
    assert places == [(0, 3), (0, 4), (1, 0), (1, 1), (3, 9)]


def test_times(filled: Filled) -> None:
    middle = str(filled.middle_ms)
    later = [m for m in filled.messages if m not in filled.first]
    assert identity(filled.rows(startingTimestamp=middle)) == expected(later)
    assert identity(filled.rows(endingTimestamp=middle)) == expected(filled.first)
    only = filled.each(0, filled.middle_ms, filled.middle_ms, filled.middle_ms)
    of_queue_0 = [m for m in filled.first if m.queue == 0]
    assert identity(filled.rows(startingOffsetsByTimestamp=only)) == expected([*of_queue_0, *later])
    ends = filled.rows(endingOffsetsByTimestamp=filled.each(*[filled.middle_ms] * 4))
    assert identity(ends) == expected(filled.first)


def test_a_time_behind_everything(filled: Filled) -> None:
    future = str(filled.middle_ms + 3_600_000)
    with pytest.raises(OptionError, match=r"no message of queue .* was stored at or after"):
        filled.rows(startingTimestamp=future)
    assert filled.rows(startingTimestamp=future, startingOffsetsByTimestampStrategy="latest") == []


def test_every_queue_must_be_named(filled: Filled) -> None:
    with pytest.raises(OptionError, match="startingOffsets does not name queue broker-a/3"):
        filled.rows(startingOffsets=filled.each(0, 0, 0))
    with pytest.raises(OptionError, match=r"queue 4 of .*, which is not read here"):
        filled.rows(startingOffsets=filled.each(0, 0, 0, 0, 0))


@pytest.mark.parametrize("start", [11, 99])
def test_an_offset_behind_the_end_is_data_loss(filled: Filled, start: int) -> None:
    spec = filled.each(start, -2, -2, -2)
    with pytest.raises(DataLoss, match=f"offset {start} of queue broker-a/0 .* has 0 to 10"):
        filled.rows(startingOffsets=spec)
    kept = [m for m in filled.messages if m.queue]
    found = filled.rows(startingOffsets=spec, failOnDataLoss="false")
    assert identity(found) == expected(kept)


@pytest.mark.parametrize(
    ("expression", "kind", "wanted"),
    [("a || c", "TAG", "ac"), ("b", "TAG", "b"), ("TAGS = 'a' OR n > 36", "SQL92", None)],
)
def test_the_broker_filters(filled: Filled, expression: str, kind: str, wanted: str | None) -> None:
    found = filled.rows(subExpression=expression, expressionType=kind, bytesPerPartition="1k")
    kept = [
        m
        for m in filled.messages
        if (m.tag in wanted if wanted else m.tag == "a" or int(m.key[1:]) > 36)
    ]
    assert identity(found) == expected(kept)


@pytest.mark.parametrize("fetch", ["raw", "pull"])
def test_tags_are_compared_by_hash_and_then_by_name(
    local_cluster: LocalCluster, fetch: str
) -> None:
    """Aa and BB have one hash in Java; the queue knows no more than that."""
    topic = new_topic(local_cluster, 1)
    with connect(local_cluster.nameserver) as mq, mq.producer() as producer:
        for tag in ("Aa", "BB", "C", "Aa"):
            producer.send(topic, tag.encode(), tags=tag)
        producer.send(topic, b"none")

    def found(expression: str) -> list[bytes]:
        given = {"subscribe": topic, "subExpression": expression, "fetch": fetch}
        return [row["value"] for row in rows(options(local_cluster, given))]

    assert found("Aa") == [b"Aa", b"Aa"]
    assert found("BB || C") == [b"BB", b"C"]
    assert found("D") == []
    assert found("*") == [b"Aa", b"BB", b"C", b"Aa", b"none"]


def test_an_expression_that_nobody_can_read_is_said(filled: Filled) -> None:
    with pytest.raises(SubscriptionInvalid, match="cannot be read"):
        filled.rows(subExpression="n >", expressionType="SQL92")


def test_assigned_queues_only(filled: Filled) -> None:
    given = {"assign": json.dumps({filled.topic: [1, "broker-a/3"]})}
    found = rows(options(filled.cluster, given))
    assert identity(found) == expected([m for m in filled.messages if m.queue in (1, 3)])
    with pytest.raises(OptionError, match="has no queue 9"):
        rows(options(filled.cluster, {"assign": json.dumps({filled.topic: [9]})}))


def test_a_pattern_finds_topics_and_none_of_the_stores_own(filled: Filled) -> None:
    found = rows(options(filled.cluster, {"subscribePattern": filled.topic[:-1] + "."}))
    assert identity(found) == expected(filled.messages)
    everything = options(filled.cluster, {"subscribePattern": ".*"})
    topics = {item.queue.topic for item in batch_ranges(remote(everything), everything)}
    assert filled.topic in topics
    assert not [name for name in topics if "sys" in name.lower() or name.startswith("%")]


@pytest.mark.parametrize("who", ["follower", "any"])
def test_replicas_that_follow_give_the_same(filled: Filled, who: str) -> None:
    assert identity(filled.rows(readFrom=who)) == expected(filled.messages)


def test_comparisons_narrow_the_ranges(filled: Filled) -> None:
    found = options(filled.cluster, {"subscribe": filled.topic})
    place = remote(found)
    ranges = batch_ranges(place, found)

    def kept(how: Narrowed) -> set[tuple[int, int, int]]:
        return {(r.queue.queue_id, r.start, r.end) for r in narrow(place, ranges, how)}

    assert kept(Narrowed(queues=frozenset([2]), offset_first=3, offset_last=6)) == {(2, 3, 7)}
    assert kept(Narrowed(topics=frozenset(["other"]))) == set()
    assert kept(Narrowed(time_first_ms=filled.middle_ms)) == {(q, 5, 10) for q in range(4)}
    assert kept(Narrowed(time_last_ms=filled.middle_ms)) == {(q, 0, 5) for q in range(4)}


def test_an_empty_topic_has_no_tasks(local_cluster: LocalCluster) -> None:
    assert rows(options(local_cluster, {"subscribe": new_topic(local_cluster)})) == []


def test_no_such_topic(local_cluster: LocalCluster) -> None:
    with pytest.raises(TopicNotFound):
        rows(options(local_cluster, {"subscribe": "NoSuchTopic"}))


@pytest.mark.parametrize("node", ["n0", "n1", "n2"])
def test_any_node_names_the_name_servers(local_cluster: LocalCluster, node: str) -> None:
    """Whoever leads: one of the three does, two do not."""
    topic = new_topic(local_cluster)
    sent = fill(local_cluster, topic, 12)
    broker = local_cluster.profile.member(node).client
    found = source_options({"bootstrap.servers": broker, "subscribe": topic}, streaming=False)
    assert identity(rows(found)) == expected(sent)


def test_nobody_answers(free_address: str) -> None:
    given = {"bootstrap.servers": f"{free_address}:9876", "subscribe": "t"}
    impatient = {"numRetries": "2", "retryIntervalMs": "1", "client.connectTimeout": "0.2"}
    found = source_options({**given, **impatient}, streaming=False)
    with pytest.raises(SourceError, match="tried 3 times"):
        rows(found)
