"""`dledger group` and `dledger topic delete` as a user meets them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from click.testing import CliRunner

from cluster import connect
from cluster.client import ConsumerConfig, blocking
from cluster.commands.errors import NOT_THERE, USAGE
from cluster.commands.groups import group
from cluster.commands.message import message
from cluster.commands.tail import messages_of_tail
from cluster.commands.topics import topic
from cluster.commands.whole_cluster import cluster
from cluster.local.launcher import LocalCluster
from tests.waiting import limit


def run(command: Any, cluster: LocalCluster, *arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(command, [*arguments, "-a", cluster.nameserver])
    error = found.exception
    code = getattr(error, "exit_code", found.exit_code)
    return code, found.output + (str(error) if error else "")


@contextlib.contextmanager
def reading(mq: Any, topic_name: str, group_name: str, count: int) -> Iterator[None]:
    """A member of a group that has read some of the five messages of a new topic."""
    mq.admin().create_topic(topic_name, 1)
    with mq.producer() as producer:
        for number in range(5):
            producer.send(topic_name, b"%d" % number)
    config = ConsumerConfig(manual_ack=True)
    with mq.consumer(topic_name, group=group_name, config=config) as consumer:
        for message in consumer.receive_many(count, 60.0):
            consumer.ack(message)
        consumer.commit()
        yield


def test_a_group_is_listed_described_and_moved(local_cluster: LocalCluster) -> None:
    name, group_name = "group-verbs", "group-verbs-readers"
    with blocking.connect(local_cluster.nameserver) as mq, reading(mq, name, group_name, 2):
        code, said = run(group, local_cluster, "describe", group_name, "-o", "json")
        assert code == 0, said
        (found,) = json.loads(said)
        (member,) = found["members"]
        assert member["note"] == "", "its id is its own"
        (row,) = [row for row in found["queues"] if row["topic"] == name]
        assert row["lag"] == row["end"] - row["next"] > 0
        assert row["lag_seconds"] > 0
        code, said = run(group, local_cluster, "list", "-o", "json")
        (row,) = [row for row in json.loads(said) if row["group"] == group_name]
        assert row["members"] == 1
    code, said = run(group, local_cluster, "reset", group_name, "--topic", name, "--to", "last")
    assert code == 0, said
    code, said = run(group, local_cluster, "describe", group_name)
    assert code == 0
    assert "LAG SECONDS" in said
    code, said = run(group, local_cluster, "describe", "nobody")
    assert (code, "dledger group list" in said) == (NOT_THERE, True)
    code, said = run(group, local_cluster, "reset", group_name, "--topic", name, "--to", "noon")
    assert (code, "ISO" in said or "neither first nor last" in said) == (USAGE, True)


def test_a_group_is_cloned_shown_before_and_deleted(local_cluster: LocalCluster) -> None:
    name, source, target = "group-changes", "cloned-readers", "cloning-readers"
    with blocking.connect(local_cluster.nameserver) as mq:
        with reading(mq, name, source, 3):
            (read,) = [
                row.next for row in mq.admin().groups().lag(source) if row.queue.topic == name
            ]
            code, said = run(group, local_cluster, "delete", source, "--yes")
            assert (code, "has a member connected; stop its consumers first" in said) == (1, True)
            code, said = run(group, local_cluster, "clone", target, source)
            assert (code, f"{target} has read nothing" in said) == (NOT_THERE, True)
            code, said = run(group, local_cluster, "lag", source, "-o", "json")
            (row,) = [row for row in json.loads(said) if row["topic"] == name]
            assert (code, row["queues"], row["lag"]) == (0, 1, 5 - read)
        place = {"topic": name, "queue": 0, "before": None, "next": read}
        dry = ("clone", source, target, "--dry-run", "-o", "json")
        for words in (dry, ("clone", source, target, "-o", "json")):
            code, said = run(group, local_cluster, *words)
            (row,) = json.loads(said)
            assert (code, {key: row[key] for key in place}) == (0, place), said
            if words == dry:
                assert not mq.admin().groups().lag(target), "nothing was changed"
        (row,) = mq.admin().groups().lag(target)
        assert row.next == read
        code, said = run(
            group, local_cluster, "reset", target, "--topic", name, "--to", "last", "--dry-run"
        )
        assert (code, "nothing was changed" in said) == (0, True)
        assert mq.admin().groups().lag(target)[0].next == read
        code, _ = run(group, local_cluster, "delete", target)
        assert code == USAGE
        code, said = run(group, local_cluster, "delete", target, "--yes")
        assert code == 0, said
        assert not mq.admin().groups().lag(target)
        assert target not in mq.admin().groups().names()
        code, said = run(group, local_cluster, "delete", target, "--yes")
        assert (code, "dledger group list" in said) == (NOT_THERE, True)
        code, said = run(group, local_cluster, "clone", source, source)
        assert (code, "name another group" in said) == (1, True)


def test_the_whole_cluster_says_how_it_is(local_cluster: LocalCluster) -> None:
    code, said = run(cluster, local_cluster, "health", "-o", "json")
    (found,) = json.loads(said)
    assert code == (1 if any(one["level"] == "critical" for one in found["alerts"]) else 0)
    assert [row["answering"] == row["nodes"] > 0 for row in found["groups"]]
    code, said = run(cluster, local_cluster, "health")
    assert " leads in term " in said
    with blocking.connect(local_cluster.nameserver) as mq, mq.producer() as producer:
        mq.admin().create_topic("busy", 1)
        producer.send("busy", b"x")
    code, said = run(cluster, local_cluster, "top", "-o", "json")
    (found,) = json.loads(said)
    (row,) = [row for row in found["topics"] if row["topic"] == "busy"]
    assert (code, row["in_per_second"] > 0) == (0, True)
    assert [row["role"] for row in found["nodes"]].count("leader") >= 1
    code, said = run(cluster, local_cluster, "watch", "-n", "2", "-o", "jsonl")
    first, second = (json.loads(line) for line in said.splitlines())
    assert (code, first["event"], second["kind"]) == (0, "answers", "leader")


def test_a_tail_has_the_newest_messages_of_all_queues_in_order(local_cluster: LocalCluster) -> None:
    with blocking.connect(local_cluster.nameserver) as mq, mq.producer() as producer:
        mq.admin().create_topic("tailed", 3)
        for number in range(7):
            producer.send("tailed", b"%d" % number, key=f"k-{number}")
    code, said = run(topic, local_cluster, "tail", "tailed", "-n", "4", "-o", "jsonl")
    assert (code, [json.loads(line)["body"] for line in said.splitlines()]) == (0, [*"3456"])
    code, said = run(topic, local_cluster, "tail", "tailed", "-n", "1")
    assert (code, said.endswith(" [k-6] 6\n")) == (0, True), said
    code, said = run(topic, local_cluster, "tail", "tailed", "-n", "0")
    assert (code, said) == (0, "")
    code, said = run(topic, local_cluster, "tail", "tailed", "-n", "100", "-o", "jsonl")
    assert len(said.splitlines()) == 7


async def test_a_tail_that_follows_has_each_message_once(local_cluster: LocalCluster) -> None:
    async with connect(local_cluster.nameserver) as client, client.producer() as producer:
        await client.admin().create_topic("followed", 2)
        await producer.send("followed", b"before")
        tail = messages_of_tail(client, "followed", 5, follow=True)
        assert (await anext(tail)).body == b"before"
        for number in range(40):
            await producer.send("followed", b"%d" % number)
        found = [(await asyncio.wait_for(anext(tail), limit(30))).body for _ in range(40)]
        assert sorted(found, key=int) == [b"%d" % number for number in range(40)]
        await tail.aclose()


def test_a_message_is_found_by_its_key_and_its_id(local_cluster: LocalCluster) -> None:
    with blocking.connect(local_cluster.nameserver) as mq, mq.producer() as producer:
        mq.admin().create_topic("to-be-found", 2)
        for number in range(3):
            receipt = producer.send("to-be-found", b"%d" % number, key=f"o-{number}")
    for key in ("o-2", receipt.message_id):
        code, said = run(message, local_cluster, "find", "to-be-found", "-k", key, "-o", "json")
        assert code == 0, said
        (found,) = json.loads(said)
        assert (found["body"], found["offset"]) == ("2", receipt.queue_offset)
    code, said = run(message, local_cluster, "find", "to-be-found", "-k", "o-3")
    assert (code, "no message of to-be-found" in said) == (NOT_THERE, True)


def test_dead_letters_are_listed(local_cluster: LocalCluster) -> None:
    code, said = run(message, local_cluster, "dead", "nobody-died", "-o", "json")
    assert (code, "no broker knows the group nobody-died" in said) == (NOT_THERE, True)
    with blocking.connect(local_cluster.nameserver) as mq, mq.producer() as producer:
        mq.admin().create_topic("mortal", 1)
        producer.send("mortal", b"last\nwords")
        config = ConsumerConfig(manual_ack=True)
        with mq.consumer("mortal", group="mourners", config=config) as consumer:
            (one,) = consumer.receive_many(1, 60.0)
            consumer.nack(one, delay_level=-1)
    code, said = run(message, local_cluster, "dead", "mourners", "-o", "json")
    (found,) = json.loads(said)
    assert (found["of_topic"], found["body"]) == ("mortal", "last\nwords")
    code, said = run(message, local_cluster, "dead", "mourners")
    assert (code, len(said.splitlines())) == (0, 2), "a body of two lines is one row"


def test_a_topic_is_deleted_when_one_says_yes(local_cluster: LocalCluster) -> None:
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic("not-for-long", 1)
        code, _ = run(topic, local_cluster, "delete", "not-for-long")
        assert code != 0
        assert "not-for-long" in mq.admin().list_topics()
        code, said = run(topic, local_cluster, "delete", "not-for-long", "--yes")
        assert code == 0, said
        assert "not-for-long" not in mq.admin().list_topics()
    code, said = run(topic, local_cluster, "delete", "not-for-long", "--yes")
    assert code == NOT_THERE, said
