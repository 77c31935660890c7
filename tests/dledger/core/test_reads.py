"""ReadIndex: dissertation 6.4; S9."""

from __future__ import annotations

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import HeartbeatReply
from dledger.core.types import NO_INDEX, NodeId, Reason, Role, Term

from .net import Net

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def ready(net: Net, name: str) -> list[tuple[int, int]]:
    effects = net.nodes[NodeId(name)].effects
    return [(e.read_id, e.index) for e in effects if isinstance(e, fx.ReadReady)]


def refused(net: Net, name: str) -> list[int]:
    return [e.read_id for e in net.nodes[NodeId(name)].effects if isinstance(e, fx.ReadRefused)]


def test_a_read_is_ready_after_a_majority_confirmed() -> None:
    net = Net()
    leader = net.elect("n0")
    net.propose(leader, 4)
    net.deliver()
    net.handle(leader, ev.ReadRequested(1))
    assert ready(net, leader) == []
    net.deliver()
    assert ready(net, leader) == [(1, 4)]


def test_a_follower_asks_the_leader() -> None:
    net = Net()
    leader = net.elect("n0")
    net.propose(leader, 4)
    net.deliver()
    net.handle("n1", ev.ReadRequested(3))
    net.deliver()
    assert ready(net, "n1") == [(3, 4)]


def test_a_deposed_leader_serves_no_read() -> None:
    net = Net()
    leader = net.elect("n0")
    net.isolate(leader)
    net.handle(leader, ev.ReadRequested(5))
    net.run(2.0)
    assert ready(net, leader) == []
    assert refused(net, leader) == [5]


def test_late_answers_of_other_terms_and_rounds_prove_nothing() -> None:
    """docs/spec/chaos.md 0, principle 8: the echo of an old round or term is no confirmation."""
    net = Net()
    leader = net.elect("n0")
    net.isolate(leader)
    raft = net.raft(leader)
    net.handle(leader, ev.ReadRequested(5))
    old = HeartbeatReply(N1, Term(raft.term - 1), 999, NO_INDEX, NO_INDEX)
    net.handle(leader, ev.MessageReceived(old))
    early = HeartbeatReply(N1, raft.term, 1, NO_INDEX, NO_INDEX)
    net.handle(leader, ev.MessageReceived(early))
    assert ready(net, leader) == []


def test_reads_before_the_noop_is_committed_wait_for_it() -> None:
    net = Net()
    for node in net.nodes.values():
        node.auto_flush = False
    leader = net.elect("n0")
    net.handle(leader, ev.ReadRequested(6))
    net.deliver()
    assert ready(net, leader) == []
    net.flush("n0")
    net.flush("n1")
    net.deliver()
    assert ready(net, leader) == [(6, 0)]


def test_many_reads_share_rounds() -> None:
    net = Net()
    leader = net.elect("n0")
    net.deliver()
    before = net.raft(leader).state.round
    for read_id in range(100):
        net.handle(leader, ev.ReadRequested(read_id))
    net.deliver()
    assert [r for r, _ in ready(net, leader)] == list(range(100))
    assert net.raft(leader).state.round - before <= 2


def test_nobody_leads_is_said_at_once_and_silence_after_a_while() -> None:
    net = Net()
    net.handle("n0", ev.ReadRequested(1))
    assert refused(net, "n0") == [1]
    leader = net.elect("n0")
    net.drop = lambda _s, _t, m: type(m).__name__ == "ReadIndexRequest"
    net.handle("n1", ev.ReadRequested(2))
    net.run(1.0)
    assert refused(net, "n1") == [2]
    assert net.leader() == leader


def test_a_single_node_reads_at_once() -> None:
    net = Net(1)
    net.elect()
    net.handle("n0", ev.ReadRequested(1))
    assert ready(net, "n0") == [(1, 0)]
    assert net.raft("n0").role is Role.LEADER


def test_a_failed_node_refuses_reads_with_the_reason() -> None:
    net = Net()
    net.handle("n0", ev.StorageFailed(Reason.DISK_ERROR, "EIO"))
    net.handle("n0", ev.ReadRequested(1))
    effect = net.nodes[N0].effects[-1]
    assert isinstance(effect, fx.ReadRefused)
    assert effect.reason is Reason.DISK_ERROR
