"""What single options promise, shown on a topic of a running cluster (test_option_table.py)."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.client.blocking import connect
from cluster.client.connection.connection import Connection
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode
from pipeline.options import OptionError
from pipeline.source.options import SourceOptions
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.reading import read
from pipeline.source.remote import remote

from .filled import Message, expected, fill, identity, new_topic, options, rows


class Topic:
    """Four queues with 40 messages."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.name = cluster, new_topic(cluster)
        self.messages: list[Message] = fill(cluster, self.name)

    def options(self, **given: str) -> SourceOptions:
        return options(self.cluster, {"subscribe": self.name, **given})


@pytest.fixture(scope="module")
def topic(local_cluster: LocalCluster) -> Topic:
    return Topic(local_cluster)


def test_tasks_are_as_few_as_wanted(topic: Topic) -> None:
    def count(found: SourceOptions) -> int:
        place = remote(found)
        return len(tasks(place, found, batch_ranges(place, found)))

    assert count(topic.options(bytesPerPartition="500")) >= 10
    assert count(topic.options(bytesPerPartition="1g")) == 1
    assert count(topic.options(recordsPerPartition="10")) == 5
    few = topic.options(bytesPerPartition="500", maxPartitions="3")
    assert count(few) == 3
    assert identity(rows(few)) == expected(topic.messages)


def test_columns_that_are_not_named_are_not_made(topic: Topic) -> None:
    found = rows(topic.options(columns="offset,queue"))
    assert {tuple(row) for row in found} == {("offset", "queue")}
    assert sorted(row["offset"] for row in found) == sorted(m.offset for m in topic.messages)


@pytest.mark.parametrize("who", ["leader", "follower", "any"])
def test_nothing_but_committed_is_read(topic: Topic, who: str) -> None:
    """Whoever is read, a read ends at what the leader calls committed."""
    found = topic.options(readFrom=who, consistency="committed")
    ends = {item.queue: item.end for item in batch_ranges(remote(found), found)}
    with connect(topic.cluster.nameserver) as mq:
        described = mq.admin().describe_topic(topic.name)
    assert ends == {queue: row.max_offset for queue, row in described.bounds.items()}
    with pytest.raises(OptionError, match="give committed"):
        topic.options(consistency="eventual")


class Listening:
    """Notes what every request of `read` asked for, and how long it would wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bodies: dict[int, list[int]] = {}
        self.limits: set[float] = set()
        call = Connection.call

        async def listen(connection: Connection, code: int, *rest: Any, **more: Any) -> Any:
            answer = await call(connection, code, *rest, **more)
            self.bodies.setdefault(code, []).append(len(answer.body))
            self.limits.add(more["time_limit"])
            return answer

        monkeypatch.setattr(Connection, "call", listen)


@pytest.mark.parametrize(
    ("fetch", "code"),
    [("raw", RequestCode.FETCH_LOG_RANGE), ("pull", RequestCode.PULL_MESSAGE)],
)
def test_an_answer_holds_no_more_bytes(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, fetch: str, code: int
) -> None:
    listening = Listening(monkeypatch)
    assert identity(rows(topic.options(fetch=fetch, fetchBytes="2k"))) == expected(topic.messages)
    assert max(listening.bodies[code]) <= 2 << 10
    assert len(listening.bodies[code]) >= 4


def test_a_request_waits_so_long(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = Listening(monkeypatch)
    found = topic.options(fetchTimeoutMs="4321")
    place = remote(found)
    planned = tasks(place, found, batch_ranges(place, found))
    listening.limits.clear()
    assert sum(batch.num_rows for task in planned for batch in read(found, task)) == 40
    assert listening.limits == {4.321}
