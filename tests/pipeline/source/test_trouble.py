"""Leaders that die, replicas that are not there, topics that are not what they were."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.local.launcher import LocalCluster
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.topics import QueueBounds
from pipeline.options import OptionError
from pipeline.source.bounds import DataLoss
from pipeline.source.offsets import QueueRange
from pipeline.source.options import SourceOptions, source_options
from pipeline.source.plan import batch_ranges, stream_ranges, tasks
from pipeline.source.reading import read
from pipeline.source.remote import remote
from pipeline.source.waiting import waiting
from tests.waiting import limit

from ...conftest import running_cluster
from .filled import expected, fill, identity, new_topic, options, rows

Q0, Q1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
STRICT = source_options({"servers": "h:1", "subscribe": "t"}, streaming=True)
#: Tries for a minute.
PATIENT = {"numRetries": str(int(limit(300))), "retryIntervalMs": "200"}
LENIENT = source_options(
    {"servers": "h:1", "subscribe": "t", "failOnDataLoss": "false"}, streaming=True
)


def _bounds(**queues: tuple[int, int]) -> dict[MessageQueue, QueueBounds]:
    return {
        MessageQueue("t", "a", int(name[1:])): QueueBounds(*row) for name, row in queues.items()
    }


@pytest.mark.parametrize("fetch", ["raw", "pull"])
def test_the_leader_dies_in_mid_read(make_cluster: Callable[..., LocalCluster], fetch: str) -> None:
    cluster = make_cluster()
    topic = new_topic(cluster)
    sent = fill(cluster, topic, 400)
    found = options(cluster, {"subscribe": topic, "fetch": fetch, "fetchBytes": "8k", **PATIENT})
    place = remote(found)
    planned = tasks(place, found, batch_ranges(place, found))
    got: list[dict[str, Any]] = []
    killed = False
    for task in planned:
        for batch in read(found, task):
            got += batch.to_pylist()
            if not killed:
                leader = cluster.leader()
                assert leader is not None
                cluster.kill(leader)
                killed = True
    assert killed
    assert identity(got) == expected(sent)


def test_a_majority_that_comes_back_is_waited_for(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster()
    topic = new_topic(cluster)
    sent = fill(cluster, topic, 40)
    cluster.kill_all()
    returning = threading.Thread(target=cluster.up)
    returning.start()
    try:
        assert identity(rows(options(cluster, {"subscribe": topic, **PATIENT}))) == expected(sent)
    finally:
        returning.join()


def test_name_servers_may_be_away_once_the_route_is_known(
    make_cluster: Callable[..., LocalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(nodes=1)
    topic = new_topic(cluster)
    sent = fill(cluster, topic, 20)
    found = options(cluster, {"subscribe": topic})
    assert identity(rows(found)) == expected(sent)
    monkeypatch.setattr("pipeline.source.remote.ROUTE_SECONDS", 0.0)
    cluster.kill("ns")
    assert identity(rows(found)) == expected(sent)


def test_what_was_kept_is_read_as_planned() -> None:
    known = _bounds(q0=(0, 50), q1=(10, 20))
    ranges = stream_ranges(STRICT, {Q0: 5}, {Q0: 30, Q1: 15}, known)
    assert ranges == [QueueRange(Q0, 5, 30), QueueRange(Q1, 10, 15)], "a new queue: from its first"
    assert stream_ranges(STRICT, {Q0: 5}, {Q0: 5}, {}) == [], "nothing to read, nothing to lose"


LOSSES: list[tuple[dict[MessageQueue, QueueBounds], int, int, str, list[QueueRange]]] = [
    (_bounds(q0=(20, 50)), 5, 30, "5 to 20 are gone", [QueueRange(Q0, 20, 30)]),
    (_bounds(q0=(40, 50)), 5, 30, "5 to 30 are gone", []),
    (_bounds(), 5, 30, "does not exist any more", []),
    (_bounds(q0=(0, 8)), 30, 8, "the topic was made anew", [QueueRange(Q0, 0, 8)]),
    (_bounds(q0=(0, 8)), 5, 30, "the topic was made anew", [QueueRange(Q0, 0, 8)]),
]


@pytest.mark.parametrize(("known", "start", "end", "what", "kept"), LOSSES)
def test_lost_messages_fail_the_query_or_are_skipped_aloud(
    known: dict[MessageQueue, QueueBounds],
    start: int,
    end: int,
    what: str,
    kept: list[QueueRange],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLoss, match=what):
        stream_ranges(STRICT, {Q0: start}, {Q0: end}, known)
    assert stream_ranges(LENIENT, {Q0: start}, {Q0: end}, known) == kept
    assert what in caplog.text


def test_what_waits_for_a_stream() -> None:
    known = _bounds(q0=(0, 30), q1=(3, 9))
    assert waiting({Q0: 5}, known, None) == (
        [QueueRange(Q0, 5, 30), QueueRange(Q1, 3, 9)],
        {},
        [],
    )
    assert waiting({Q0: 30, Q1: 9}, known, None) == ([], {}, [])
    below = waiting({Q0: 5}, known, {Q0: 12})
    assert below.ranges == [QueueRange(Q0, 5, 12)], "a queue that came later has no target"


@pytest.mark.parametrize("target", [None, {Q0: 8}])
def test_a_topic_made_anew_is_read_from_its_beginning(
    target: dict[MessageQueue, int] | None,
) -> None:
    found = waiting({Q0: 30}, _bounds(q0=(0, 8)), target)
    assert found.ranges == [QueueRange(Q0, 0, 8)]
    assert found.moved == {Q0: 0}
    assert "made anew" in found.problems[0]
    empty = waiting({Q0: 30}, _bounds(q0=(0, 0)), target)
    assert (empty.ranges, empty.moved) == ([], {Q0: 0}), "else its first 30 would be skipped later"
    assert stream_ranges(LENIENT, {Q0: 30}, {Q0: 0}, _bounds(q0=(0, 0))) == []


def test_a_deleted_topic_is_a_problem() -> None:
    found = waiting({Q0: 30, Q1: 2}, _bounds(q1=(0, 2)), None)
    assert found.ranges == []
    assert found.problems == ["queue a/0 of t does not exist any more"]


def test_a_planned_range_that_was_deleted_meanwhile(local_cluster: LocalCluster) -> None:
    """Workers meet it, too: the queue then has other bounds than when the driver planned."""
    topic = new_topic(local_cluster)
    sent = fill(local_cluster, topic, 40)

    def of(**given: str) -> SourceOptions:
        base = {"subscribe": topic, "numRetries": "9", "retryIntervalMs": "10"}
        return options(local_cluster, {**base, **given})

    task = tuple(QueueRange(MessageQueue(topic, "broker-a", q), 0, 10) for q in range(4))
    whole = [row for batch in read(of(), task) for row in batch.to_pylist()]
    assert identity(whole) == expected(sent)
    beyond = (QueueRange(MessageQueue(topic, "broker-a", 0), 8, 14),)
    for fetch in ("raw", "pull"):
        with pytest.raises(Exception, match=r"has nothing at offset 10|ends at 10, below"):
            list(read(of(fetch=fetch), beyond))


def test_a_topic_on_two_broker_names(tmp_path: Path, new_address: Callable[[], str]) -> None:
    """Queue ids repeat; offsets are kept under the broker's name, and users must say which."""
    with running_cluster(tmp_path, [new_address() for _ in range(4)], {}, groups=2) as cluster:
        topic = new_topic(cluster, queues=2)
        sent = fill(cluster, topic, 80, spread=False)
        found = options(cluster, {"subscribe": topic, "bytesPerPartition": "2k"})
        place = remote(found)
        ranges = batch_ranges(place, found)
        assert sorted({(r.queue.broker_name, r.queue.queue_id) for r in ranges}) == [
            *(("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1))
        ]
        planned = tasks(place, found, ranges)
        assert all(len({item.queue.broker_name for item in task}) == 1 for task in planned)
        for more in ({}, {"fetch": "pull"}, {"maxPartitions": "1"}):
            got = rows(options(cluster, {"subscribe": topic, **more}))
            assert sorted(row["value"] for row in got) == sorted(m.body for m in sent)
        one = json.dumps({topic: {"0": 0, "1": 0}})
        with pytest.raises(OptionError, match=r"queue 0 of .* is on broker-a, broker-b; say which"):
            rows(options(cluster, {"subscribe": topic, "startingOffsets": one}))
        assigned = options(cluster, {"assign": json.dumps({topic: ["broker-b/1"]})})
        assert {r.queue for r in batch_ranges(remote(assigned), assigned)} == {
            MessageQueue(topic, "broker-b", 1)
        }
