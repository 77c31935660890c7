"""Defects of DLedger about what is committed: docs/spec/raft_log.md 4.1, W2 W5 W14 W15."""

from __future__ import annotations

import pytest

from dledger.core.messages import AppendEntries, AppendReply, HeartbeatReply
from dledger.core.types import Index, Term
from dledger.errors import DledgerError, OutcomeUnknown
from dledger.testing.memory import MemoryLog
from tests.dledger.core.net import Net
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import fill, make
from tests.dledger.replica.test_replica import Net as ReplicaNet
from tests.dledger.replica.test_replica import proposal
from tests.paper.steps import N0, begin_with, ranged, receive

from .groups import led


def test_w02_entries_of_an_earlier_term_are_not_committed_by_counting() -> None:
    """There: commit went from 99 to 149 in a term of which no entry existed."""
    net = led(entries=99)
    # 50 more, which n1 has and nobody hears of
    net.isolate("n2")
    net.drop = lambda _s, to, m: to == N0 and isinstance(m, AppendReply | HeartbeatReply)
    net.propose("n0", 50)
    net.deliver()
    assert net.raft("n1").log.last.index == 149
    net.heal()
    net.isolate("n0")
    # n1 leads; its own entry (150) comes to nobody
    net.nodes[net.raft("n1").node_id].frame_entries_max = 50
    net.drop = lambda _s, _t, m: isinstance(m, AppendEntries) and m.last > 149
    net.elect("n1")
    net.run(0.5)
    assert net.raft("n2").log.last == (1, 149)
    assert net.raft("n1").term == 2
    assert [net.raft(name).commit for name in net.names] == [99, 99, 99]
    net.drop = lambda *_: False
    net.run(1.2)
    assert net.raft("n1").commit == 150


def test_w05_no_success_without_a_majority_in_the_current_term() -> None:
    """There: with commit above the log's end, a write was acknowledged at once, alone."""
    net = ReplicaNet()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes), net.now)
    for _ in range(20):  # nobody hears it
        net.wires.clear()
        leader.sync()
        net.now += 0.2
        leader.replica.timer(net.now)
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown]


def test_w05_commit_beyond_the_end_is_refused() -> None:
    """There: it is neither lowered nor checked."""
    net = Net()
    begin_with(net, "n1", [1, 1])
    receive(net, "n1", ranged(N0, 1, (1, 1), [], commit=199))
    assert net.raft("n1").commit == 1
    memory = MemoryLog()
    memory.append([b"one"], Term(1))
    on_disk = make(CrashDisk()).log
    fill(on_disk, 1)
    for log in (memory, on_disk):
        with pytest.raises(AssertionError, match="commit never exceeds the log's end"):
            log.save_commit(Index(1))


def test_w14_what_is_not_committed_is_not_seen() -> None:
    """There: reads and recovery hand out entries that a later leader removes."""
    net = ReplicaNet()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes, b"not yet"), net.now)
    leader.sync()
    net.wires.clear()
    assert leader.log.flushed == 1
    served: list[DledgerError | None] = []
    leader.replica.read_index(served.append, net.now)
    net.wires.clear()
    leader.boot()  # killed; the entry is on its disk
    assert bytes(leader.log.entry(Index(1)).body) == b"not yet"
    assert (outcomes, served) == ([], [])
    assert all(last < 1 for _, last in leader.applied)
    net.elect("n1")
    net.deliver()
    assert leader.log.id_of(Index(1)).term == 2, "n1's first entry is there instead"
    assert b"not yet" not in bytes(leader.log.entry(Index(1)).body)
    net.now += 0.2
    net["n1"].replica.timer(net.now)
    net.deliver()
    assert leader.applied[-1][1] == 1
    assert outcomes == []


def test_w15_the_first_leader_is_of_term_1() -> None:
    """There: a group may elect in term 0."""
    for seed in range(5):
        net = Net(seed=seed)
        net.run(2.0)
        assert min(net.checker.leaders) >= 1


def test_w15_logs_of_term_0_open() -> None:
    """Java wrote such logs; what they hold is committed by an entry of a later term."""
    net = Net()
    for name in net.names:
        begin_with(net, name, [0, 0, 0])
    net.elect("n0")
    assert net.raft("n0").log.last == (1, 3)
    assert net.raft("n0").commit == 3
