"""Defects of DLedger about disks: docs/spec/raft_log.md 4.1, W6 W7 W8 W10 W16, and W24 of 4.2."""

from __future__ import annotations

import errno

import pytest

from commitlog.errors import StoreDamaged
from dledger.core import events as ev
from dledger.core.config import CoreConfig
from dledger.core.effects import Send
from dledger.core.messages import VoteReply, VoteRequest
from dledger.core.node import RaftNode
from dledger.core.types import NO_ENTRY, NO_INDEX, Index, NodeId, Reason, Role, Term
from dledger.errors import DledgerError, LogDamaged
from dledger.log.log_tasks import LogSync
from tests.dledger.core.net import Net
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.dledger.log.stores import (
    DATA_FILE_SIZE,
    FOLDER,
    body_of,
    dump,
    fill,
    make,
    mark,
    reopen,
    sync,
)
from tests.dledger.replica.test_replica import Net as ReplicaNet
from tests.dledger.replica.test_replica import proposal
from tests.paper.steps import N0, N1, N2

from .groups import save


def power_loss(net: ReplicaNet) -> None:
    """All machines at once: what no sync covered is gone."""
    net.wires.clear()
    for host in net.hosts.values():
        host.log.crash()
        host.boot()


def test_w06_acknowledged_entries_survive_the_power_loss_of_all() -> None:
    """There: an entry counts when it is in the page cache."""
    net = ReplicaNet()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes, b"first"), net.now)
    net.deliver()
    leader.replica.propose(proposal(outcomes, b"second"), net.now)
    net.deliver(sync=False)
    assert all(host.log.last.index == 2 for host in net.hosts.values())
    assert outcomes == [None], "the second is in three page caches and on no disk"
    power_loss(net)
    assert all(host.log.last.index == 1 for host in net.hosts.values())
    assert bytes(net.elect("n1").log.entry(Index(1)).body) == b"first"


def test_w07_a_failed_sync_moves_nothing_and_stops_the_node() -> None:
    """There: it is logged, and the flushed position goes on."""
    net = ReplicaNet()
    leader = net.elect()
    leader.replica.propose(proposal([]), net.now)
    before = leader.log.flushed
    leader.sync("log", OSError(errno.EIO, "Input/output error"))
    assert leader.log.flushed == before
    assert leader.replica.node.role is Role.FAILED
    assert "Input/output error" in str(leader.replica.failure)


def test_w07_the_log_itself_does_not_take_a_failed_sync_for_done() -> None:
    """The pages look clean afterwards and are not on disk."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 3)
    sync(log)
    fill(log, 2)
    task = log.begin_sync()
    assert task is not None
    disk.sync_error = True
    with pytest.raises(OSError, match="refused"):
        task.run()
    assert log.flushed == 2
    disk.crash(keep=0.0)
    disk.sync_error = False
    assert reopen(disk).log.last.index == 2


def grants(disk: CrashDisk, candidate: str, term: int) -> bool:
    """Would the node that starts from this disk vote for `candidate` in `term`?"""
    found = reopen(disk).hard_state.state
    config = CoreConfig(NodeId("n0"), (NodeId("n0"), NodeId("n1"), NodeId("n2")))
    node = RaftNode(config, found, (), NO_INDEX, 0.0, lambda: 0.5)
    request = VoteRequest(NodeId(candidate), Term(term), NO_ENTRY, pre=False)
    effects = node.handle(ev.MessageReceived(request), 1.0)
    (reply,) = [e.message for e in effects if isinstance(e, Send)]
    assert isinstance(reply, VoteReply)
    return reply.granted


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_w08_no_second_vote_in_a_term_wherever_the_save_is_cut(keep: float) -> None:
    """There: no sync, a window without any file, and a backup that nobody reads."""
    for fuse in range(8):
        disk = CrashDisk()
        store = make(disk).hard_state
        save(store, 4, "n1")
        disk.fuse = fuse
        revealed = False
        try:
            save(store, 5, "n1")
            revealed = True
        except PowerCut:
            pass
        disk.crash(keep=keep)
        assert reopen(disk).hard_state.state.term in ((5,) if revealed else (4, 5))
        assert not grants(disk, "n2", 4), "term 4 was voted in before"
        if revealed:
            assert not grants(disk, "n2", 5)
            assert grants(disk, "n1", 5)


def test_w10_a_flipped_byte_is_neither_read_nor_sent_nor_recovered_from() -> None:
    """There: there are no checksums, and rot is served and replicated."""
    disk = CrashDisk()
    node = make(disk)
    fill(node.log, 12, size=200)
    sync(node.log)
    mark(node.log)
    number, offset = divmod(node.log.position_of(Index(4)), DATA_FILE_SIZE)
    path = FOLDER / "data" / f"{number * DATA_FILE_SIZE:020}"
    log = reopen(disk, cache_size_max=0).log
    disk.flip(path, offset + 60)
    with pytest.raises(StoreDamaged):
        log.entry(Index(4))
    assert log.read_range(Index(0), Index(11), 1 << 20).last == 3
    with pytest.raises(StoreDamaged):
        log.read_range(Index(4), Index(11), 1 << 20)
    assert bytes(log.entry(Index(5)).body) == body_of(5, 1, 200)
    before = disk.read(path)
    with pytest.raises((LogDamaged, StoreDamaged)):
        dump(reopen(disk, cache_size_max=0).log)
    assert disk.read(path) == before


def test_w16_the_crash_fault_forgets_what_was_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """There: their crash keeps the page cache, so that W6 to W9 can not be seen by it.

    A build whose sync does nothing loses entries that it calls flushed; the real one does not.
    """
    survivors = []
    for broken in (True, False):
        disk = CrashDisk()
        log = make(disk).log
        with monkeypatch.context() as patch:
            if broken:
                patch.setattr(LogSync, "run", lambda task: setattr(task, "done", True))
            fill(log, 5)
            assert sync(log) == 4
        disk.crash(keep=0.0)
        survivors.append(len(dump(reopen(disk).log)))
    assert survivors == [0, 5]


def test_w24_the_lead_leaves_a_bad_disk_and_stays_away() -> None:
    """There: a bad disk is not noticed, and the preferred leader keeps getting the lead."""
    net = Net(preferred=N2)
    net.elect("n0")
    net.run(8.0)
    assert net.leader() == N2
    net.handle(N2, ev.StorageFailed(Reason.DISK_ERROR, "EIO while syncing the log"))
    since = net.now
    for _ in range(40):
        net.run(0.5)
        if net.now - since > 2.0:
            assert net.leader() in (N0, N1)
    assert net.raft(N2).status().failure == "EIO while syncing the log"
    refused = net.propose(N2)[0]
    assert refused.reason is Reason.DISK_ERROR  # type: ignore[union-attr]


def test_w24_a_full_disk_is_called_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """There: a follower without room is reported as inconsistent."""
    net = ReplicaNet()
    leader = net.elect()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(net["n1"].log, "append_range", full)
    leader.replica.propose(proposal([]), net.now)
    net.deliver()
    assert "No space left on device" in str(net["n1"].replica.failure)
    assert net["n1"].replica.node.status().failure
    assert leader.replica.node.role is Role.LEADER
