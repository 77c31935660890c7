"""Defects of DLedger that drop entries: W1 W3 W4 W9 W11 W12 and W25.

Source: docs/spec/raft_log.md 4.1, 4.2.
"""

from __future__ import annotations

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.messages import Message, TimeoutNow, VoteRequest
from dledger.core.replication import SafetyViolation
from dledger.core.types import EntryId, Index, NodeId, Term
from tests.dledger.core.net import Net
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, dump, fill, ids, make, reopen, sync
from tests.paper.steps import N0, N1, N2, answers, ask, begin_with, ranged, receive, time_out

from .groups import led


def test_w01_the_first_leadership_after_a_start_truncates_nothing() -> None:
    """There: the new leader compares at its end at process start and orders a truncation there."""
    net = led(entries=200)
    net.isolate("n0")
    for _ in range(100):
        net.run(0.05)
        assert all(net.raft(name).log.last.index >= 200 for name in ("n1", "n2"))
    assert net.leader() in ("n1", "n2")
    net.heal()
    net.run(1.0)
    assert net.truncations == []


def test_w03_leadership_that_returns_uses_no_old_compare_index() -> None:
    """There: a dispatcher that was left comparing with a dead peer goes on where it was."""
    net = led(entries=10)
    net.isolate("n2")
    net.propose("n0", 50)
    net.run(1.0)
    net.heal()
    for turn in range(6):
        away, leader = f"n{turn % 3}", f"n{(turn + 1) % 3}"
        net.run(1.0)
        net.isolate(away)
        net.elect(leader)
        net.run(0.3)
        net.propose(leader, 50)
        net.run(1.0)
        net.heal()
    net.run(2.0)
    assert len({node.raft.log.last for node in net.nodes.values()}) == 1
    assert all(node.raft.commit == node.raft.log.last.index for node in net.nodes.values())
    assert net.truncations == []


def test_w04_a_truncated_node_claims_its_new_end() -> None:
    """There: as voter and as candidate it still claims the end that it had before."""
    net = Net()
    begin_with(net, "n1", [1] * 200)
    receive(net, "n1", ranged(N0, 2, (1, 9), [2]))
    assert net.truncations == [(N1, 9)]
    for _ in range(2):  # as it is, and after a restart
        net.wires.clear()
        time_out(net, "n1")
        claimed = {request.last for request in answers(net, VoteRequest)}
        assert claimed == {EntryId(Term(2), Index(10))}
        better = VoteRequest(N2, Term(9), EntryId(Term(2), Index(11)), pre=True)
        worse = VoteRequest(N2, Term(9), EntryId(Term(1), Index(199)), pre=True)
        assert [ask(net, "n1", each).granted for each in (better, worse)] == [True, False]
        net.restart(N1)


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_w09_what_was_truncated_does_not_come_back(keep: float) -> None:
    """There: with records of equal size the old 5..7 stood behind the new 4 after a restart."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 4, term=1)
    fill(log, 4, term=2)
    sync(log)
    log.truncate_after(Index(3))
    fill(log, 1, term=3)
    sync(log)
    disk.crash(keep=keep)
    log = reopen(disk).log
    assert ids(log) == [(1, 0), (1, 1), (1, 2), (1, 3), (3, 4)]
    assert len(dump(log)) == 5


def old_messages(net: Net) -> list[tuple[NodeId, Message]]:
    """Every kind of message of n0's leadership of term 1, with whom each was for."""
    late: list[tuple[NodeId, Message]] = []
    net.drop = lambda _source, target, message: bool(late.append((target, message)))
    net.elect("n0")
    net.propose("n0", 3)
    net.handle("n1", ev.ReadRequested(1))
    net.run(0.5)
    net.drop = lambda *_: False
    late.append((N2, TimeoutNow(N0, net.raft("n0").term)))
    assert len({type(message) for _, message in late}) == 9
    return late


def test_w11_messages_of_a_deposed_leader_change_nothing() -> None:
    """There: compare, truncate and commit orders are executed whatever term they are of."""
    net = Net()
    late = old_messages(net)
    for leader in ("n1", "n2"):
        net.run(0.5)
        net.elect(leader)
        net.propose(leader, 2)
    net.run(0.5)
    net.truncations.clear()
    for target, message in late:
        before = net.raft(target).status()
        effects = net.handle(target, ev.MessageReceived(message))
        assert not [e for e in effects if isinstance(e, (fx.TruncateAfter, fx.AppendReceived))]
        assert net.raft(target).status() == before, message
    assert net.truncations == []


def test_w11_a_truncation_at_or_below_commit_halts() -> None:
    """There: nothing forbids it."""
    for prev in range(7):
        net = Net()
        receive(net, "n1", ranged(N0, 1, (-1, -1), [1] * 10, commit=7))
        with pytest.raises(SafetyViolation, match="7 is committed"):
            net.raft("n1").handle(ev.MessageReceived(ranged(N2, 2, (1, prev), [2])), net.now)
        assert net.raft("n1").log.last == (1, 9)


def test_w12_a_damaged_index_does_not_cost_data() -> None:
    """There: mending the index in a truncation clears the list of data files by mistake."""
    for slot in range(12):
        disk = CrashDisk()
        node = make(disk)
        fill(node.log, 12, size=200)
        sync(node.log)
        wanted = dump(node.log)[:6]
        node.close()
        log = reopen(disk, cache_size_max=0).log
        path = FOLDER / "index" / f"{slot // 8 * 256:020}"
        for offset in range(32):
            disk.flip(path, slot % 8 * 32 + offset, 0x55)
        log.truncate_after(Index(5))
        assert dump(log) == wanted
        assert dump(reopen(disk).log) == wanted


def test_w12_truncations_leave_no_references() -> None:
    """There: one buffer stays behind each truncation."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 30, size=100)
    names = []
    for _ in range(300):
        log.truncate_after(Index(9))
        fill(log, 20, size=100)
        names.append(len(disk.names))
    assert set(names) == {names[0]}
    assert len(dump(log)) == 30


def test_w25_a_far_behind_follower_keeps_what_is_good() -> None:
    """There: it throws everything away and begins at the leader's first entry."""
    net = Net()
    for name, terms in (("n0", [1] * 300 + [2] * 3000), ("n1", [1] * 300 + [2] * 3000)):
        begin_with(net, name, terms)
    begin_with(net, "n2", [1] * 300)
    net.elect("n0")
    net.run(1.0)
    written = [e.first for e in net.nodes[N2].effects if isinstance(e, fx.AppendReceived)]
    assert written[0] == 300
    assert net.truncations == []
    assert net.raft("n2").log.last == net.raft("n0").log.last


def test_w25_a_new_disk_is_filled_from_the_first_entry() -> None:
    """The one case in which a node begins with nothing is said by an entry of the log."""
    net = led(entries=50)
    net.wipe("n2")
    net.run(1.0)
    assert net.raft("n2").log.last.index == -1
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=9)
    net.run(3.0)
    assert net.raft("n2").log.last == net.raft("n0").log.last
