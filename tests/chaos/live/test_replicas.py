"""The demo's last step can fail: what is missing from a replica's files is seen there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from chaos.checkers.verdict import Verdict, Word, judge
from chaos.demo.command import verdict_line
from chaos.demo.course import Result
from chaos.history import Kind, Operation, Outcome
from chaos.live.replicas import Log, log_begins, read_queues, read_replica
from commitlog.records.message import Message, encode_message
from dledger.core.types import NodeId, Term
from dledger.durable.identity import Identity
from dledger.errors import WrongIdentity
from dledger.log.node_storage import format_node, open_node

# Where the record holds its own address (docs/spec/store.md 1.1, field 7).
PHYSICAL_OFFSET_AT = 28


def write_replica(folder: Path, keys: list[str]) -> None:
    identity = Identity("c1", "default", NodeId("n0"), data_file_size=1 << 20, index_file_size=3200)
    format_node(folder, identity, incarnation=1)
    storage = open_node(
        folder, cluster_id="c1", group="default", node_id="n0", clock=time.monotonic
    )
    for key in keys:
        for topic in ("demo", "other"):
            message = Message(topic, b"body of demo", {"KEYS": key})
            body = encode_message(message)
            storage.log.append([body], Term(1), stamp_at=PHYSICAL_OFFSET_AT)
    storage.close()


def read(folder: Path) -> Log:
    return read_replica(folder, cluster_id="c1", node_id="n0", topic="demo")


def acknowledged(log: Log) -> list[Operation]:
    return [
        Operation("p0", Kind.APPEND, key, float(n), n + 0.5, Outcome.OK, position)
        for n, (position, key) in enumerate(log)
    ]


def test_every_message_of_the_topic_is_found_where_it_is(tmp_path: Path) -> None:
    write_replica(tmp_path, ["a", "b", "c"])
    log = read(tmp_path)
    assert [key for _, key in log] == ["a", "b", "c"]
    positions = [position for position, _ in log]
    assert positions == sorted(positions)
    assert positions[0] == 48  # the first entry's header stands before its record
    assert judge(acknowledged(log), {"n0": log}).word is Word.VALID


def test_a_message_that_one_replica_does_not_hold_is_lost(tmp_path: Path) -> None:
    write_replica(tmp_path / "whole", ["a", "b", "c"])
    write_replica(tmp_path / "short", ["a", "b"])
    whole, short = read(tmp_path / "whole"), read(tmp_path / "short")
    verdict = judge(acknowledged(whole), {"n0": whole, "n1": short})
    assert verdict.word is Word.INVALID
    assert verdict.lost == 1


def test_a_message_that_stands_twice_is_doubled(tmp_path: Path) -> None:
    write_replica(tmp_path, ["a", "b", "a"])
    log = read(tmp_path)
    verdict = judge(acknowledged(log[:2]), {"n0": log})
    assert (verdict.lost, verdict.doubled) == (0, 1)


def test_what_stands_before_the_common_beginning_is_left_out(tmp_path: Path) -> None:
    write_replica(tmp_path, ["a", "b", "c"])
    positions = [position for position, _ in read(tmp_path)]
    assert log_begins(tmp_path, cluster_id="c1", node_id="n0") == 0
    found = read_queues(
        tmp_path, cluster_id="c1", node_id="n0", topics={"demo": "q"}, begins=positions[1]
    )
    assert [len(rows) for rows in found.values()] == [2]


def test_another_clusters_folder_is_not_read(tmp_path: Path) -> None:
    write_replica(tmp_path, ["a"])
    with pytest.raises(WrongIdentity):
        read_replica(tmp_path, cluster_id="c2", node_id="n0", topic="demo")


@pytest.mark.parametrize(
    ("word", "undelivered", "said"),
    [
        (Word.VALID, [], "PASS"),
        (Word.INVALID, [], "FAIL"),
        (Word.UNKNOWN, [], "FAIL"),
        (Word.VALID, ["a"], "FAIL"),
    ],
)
def test_the_verdict_line(word: Word, undelivered: list[str], said: str) -> None:
    verdict = Verdict(word, acked=9, lost=1, doubled=2, reordered=3, anomalies=())
    result = Result(10, verdict, undelivered, repeats=0, gaps=[], replicas={})
    line = verdict_line(result)
    assert line.startswith("sent 10   acknowledged 9   lost 1   doubled 2   reordered 3")
    assert line.endswith(said)
