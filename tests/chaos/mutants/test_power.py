"""The power goes on a real ext4 behind a call that promised durability: it must be kept.

What the storage asks of the disk is right only if a file system agrees; the simulator's disk is a
model of one. Each test has a loop disk of its own for 0.3 s and needs root (docs/spec/chaos.md
3.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.drivers.loop_disk import LoopDisk, why_not
from commitlog.files.system import OS_FILES
from dledger.core.types import HardState, Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, format_node, open_node

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

FILE_SIZE = 64 * 1024
IDENTITY = Identity("cluster", "group", NodeId("n0"), FILE_SIZE, FILE_SIZE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    disk = LoopDisk("n0", tmp_path / "n0.img", tmp_path / "n0")
    disk.make()
    yield disk
    disk.unmount()


def cut(disk: LoopDisk, close: Callable[[], None] = lambda: None) -> None:
    """The power goes now; what has files open there lets them go behind it."""
    disk.lose_power()
    close()
    disk.unmount()
    disk.mount()


def opened(disk: LoopDisk) -> NodeStorage:
    return open_node(
        disk.mount_point, cluster_id="cluster", group="group", node_id="n0", clock=lambda: 0.0
    )


@pytest.fixture
def node(disk: LoopDisk) -> NodeStorage:
    """A node's folder, formatted and opened."""
    format_node(disk.mount_point, IDENTITY, incarnation=7)
    return opened(disk)


def sync(node: NodeStorage) -> None:
    task = node.log.begin_sync()
    assert task is not None
    task.run()
    node.log.finish_sync(task)


def bodies_of(node: NodeStorage) -> list[bytes]:
    log = node.log
    if log.last.index < 0:
        return []
    return [bytes(entry.body) for entry in log.entries(Index(0), log.last.index)]


def failed(node: NodeStorage) -> Callable[[], None]:
    return lambda: node.close(failed=True)


def test_a_new_file_keeps_its_name(disk: LoopDisk) -> None:
    """R13: what is made is renamed into place, and a name is durable with its folder only."""
    staging = disk.mount_point / "staging"
    path = disk.mount_point / "data" / "0"
    cut(disk, OS_FILES.create(path, FILE_SIZE, staging=staging).close)
    assert path.exists()
    assert path.stat().st_size == FILE_SIZE


def test_what_is_written_whole_keeps_its_name(disk: LoopDisk) -> None:
    path = disk.mount_point / "state"
    OS_FILES.write_atomic(path, b"old")
    OS_FILES.write_atomic(path, b"new")
    cut(disk)
    assert path.read_bytes() == b"new"


def test_what_was_synced_is_there_in_every_file(disk: LoopDisk, node: NodeStorage) -> None:
    """D3, D4, R13: one sync of a batch that lies in three files."""
    written = [bytes([number]) * 9_000 for number in range(1, 20)]
    node.log.append(written, Term(1))
    sync(node)
    cut(disk, failed(node))
    again = opened(disk)
    found = bodies_of(again)
    again.close()
    assert found == written


def test_a_vote_that_was_saved_is_there(disk: LoopDisk, node: NodeStorage) -> None:
    """D1, D2: whoever was told of it would be told of another one in the same term."""
    voted = HardState(Term(5), NodeId("n2"), 7)
    task = node.hard_state.begin_save(voted)
    task.run()
    node.hard_state.finish_save(task)
    cut(disk, failed(node))
    again = opened(disk)
    found = again.hard_state.state
    again.close()
    assert found == voted


@pytest.mark.parametrize("new", [[], [b"new"]], ids=["alone", "with a new entry"])
def test_what_was_truncated_does_not_come_back(
    disk: LoopDisk, node: NodeStorage, new: list[bytes]
) -> None:
    """D6, R11: the next entries are acknowledged at the same addresses, by a shorter log."""
    log = node.log
    log.append([b"old" * 100] * 200, Term(1))
    sync(node)
    log.truncate_after(Index(9))
    if new:
        log.append(new, Term(2))
        sync(node)
    cut(disk, failed(node))
    again = opened(disk)
    found = bodies_of(again)
    rest = (disk.mount_point / "data" / f"{0:020d}").read_bytes()[again.log.end_position :]
    again.close()
    assert found == [b"old" * 100] * 10 + new
    assert not any(rest)
