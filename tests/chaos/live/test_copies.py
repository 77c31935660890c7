"""Replicas' bytes as they are on disk: one change in any of the files compared is found."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.checkers.copies import find_different_copies
from chaos.checkers.elections import Links
from chaos.checkers.membership import Change
from chaos.controls.changed_byte import change
from chaos.live.copies import UNIT, read_copies
from chaos.live.evidence_rows import links as links_of
from chaos.live.log_links import links_behind
from chaos.live.replicas import opened
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from dledger.core.configuration import Configuration, Member, Standing
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import format_node, open_node
from dledger.replica.envelope import members_body

BODIES = [b"body %04d" % n for n in range(40)]
LAST = len(BODIES) - 1


def write(cluster: LocalCluster, node: str, bodies: list[bytes]) -> None:
    """A log, and a consume queue with a message an entry, as a node leaves them."""
    cluster_id = cluster.profile.cluster_id
    data = cluster.folder(node) / "data"
    folder = data / f"dledger-{node}"
    identity = Identity(
        cluster_id, "default", NodeId(node), data_file_size=1200, index_file_size=640
    )
    format_node(folder, identity, incarnation=1)
    storage = open_node(
        folder, cluster_id=cluster_id, group="default", node_id=node, clock=time.monotonic
    )
    for body in bodies:
        storage.log.append([body], Term(1))
    units = [UNIT.pack(storage.log.position_of(Index(n)), 57, 7) for n in range(len(bodies))]
    storage.close()
    queue = data / "consumequeue" / "chaos" / "0"
    queue.mkdir(parents=True)
    for first in (0, 30):
        name = f"{first * UNIT.size:020}"
        (queue / name).write_bytes(b"".join(units[first : first + 30]).ljust(600, bytes(1)))


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    made = LocalCluster.create(tmp_path / "cluster", plan.plan(3, plan.scratch_hosts(3)))
    for node in made.brokers:
        write(made, node, BODIES)
    return made


def names(cluster: LocalCluster, last: int = LAST) -> set[str]:
    return {anomaly.name for anomaly in find_different_copies(read_copies(cluster, last))}


def test_equal_replicas_are_equal(cluster: LocalCluster) -> None:
    found = read_copies(cluster, LAST)
    assert find_different_copies(found) == []
    assert set(found.of["n0"].regions) == {"log", "log index", "consumequeue/chaos/0"}
    assert found.of["n0"].regions["consumequeue/chaos/0"].size == 40 * UNIT.size
    assert found.of["n0"].regions["log"].size > 1200  # more than a file
    assert len(found.of["n0"].chain) == len(BODIES)
    assert len(found.links) == 4 * len(BODIES)


def test_a_leader_tells_the_checksums_that_are_read_from_its_log(cluster: LocalCluster) -> None:
    """Two logs that differ in one entry differ in all checksums from there on."""
    kept = Links(0, read_copies(cluster, LAST).links)
    folder = cluster.folder("n0") / "data" / "dledger-n0"
    with opened(folder, cluster_id=cluster.profile.cluster_id, node_id="n0") as log:
        links = links_of(links_behind(log, 30))
        assert links is not None
        assert (links.first, links.last) == (30, LAST)
        assert all(links.at(n) == kept.at(n) for n in range(30, LAST + 1))
        log.truncate_after(Index(34))
        log.append([b"another"] * 5, Term(2))
        other = links_of(links_behind(log, 30))
    assert other is not None
    assert [n for n in range(30, LAST + 1) if other.at(n) != kept.at(n)] == [35, 36, 37, 38, 39]


def test_changes_of_the_group_are_read_from_the_log(tmp_path: Path) -> None:
    made = LocalCluster.create(tmp_path / "cluster", plan.plan(3, plan.scratch_hosts(3)))
    kept, back = (Member(NodeId("n0")), Member(NodeId("n1"))), Member(NodeId("n2"))
    groups = [
        Configuration(kept),
        Configuration((*kept, back._replace(standing=Standing.RETURNING))),
    ]
    bodies = [*BODIES[:7], *(bytes(members_body(group, 0)) for group in groups), *BODIES[7:9]]
    for node in made.brokers:
        write(made, node, bodies)
    first = Change(-1, frozenset(made.brokers))
    one, two = frozenset({"n0", "n1"}), frozenset({"n0", "n1", "n2"})
    every = [first, Change(7, one), Change(8, two, mute=frozenset({"n2"}))]
    assert read_copies(made, len(bodies) - 1).changes == every
    assert read_copies(made, 7).changes == every[:2]  # what follows may not stay


def flip_body(cluster: LocalCluster, node: str) -> None:
    folder = cluster.folder(node) / "data" / f"dledger-{node}" / "data"
    for path in folder.iterdir():
        data = path.read_bytes()
        path.write_bytes(data.replace(BODIES[3], b"bodY 0003"))


@pytest.mark.parametrize(
    ("damage", "name"), [(change, "bytes-differ"), (flip_body, "unreadable-replica")]
)
def test_one_byte_turns_red(
    cluster: LocalCluster, damage: Callable[[LocalCluster, str], None], name: str
) -> None:
    damage(cluster, "n1")
    assert names(cluster) == {name}


def test_a_queue_that_is_missing_turns_red(cluster: LocalCluster) -> None:
    queue = cluster.folder("n2") / "data" / "consumequeue" / "chaos" / "0"
    for path in queue.iterdir():
        path.unlink()
    assert names(cluster) == {"bytes-differ"}


def test_whole_records_of_another_log_turn_red(tmp_path: Path) -> None:
    """Every checksum is right: only the comparison can tell."""
    made = LocalCluster.create(tmp_path / "cluster", plan.plan(3, plan.scratch_hosts(3)))
    other = [*BODIES[:20], b"another!!", *BODIES[21:]]
    for node in made.brokers:
        write(made, node, other if node == "n1" else BODIES)
    assert names(made) == {"log-mismatch", "bytes-differ"}
    assert names(made, last=19) == set()  # behind the end all were at, logs may differ
