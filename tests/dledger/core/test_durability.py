"""Answers before the commit (R22): told when a majority has written, and nothing moves by it."""

from __future__ import annotations

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import AppendReply
from dledger.core.types import NodeId

from .net import Net

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def told(net: Net, name: str = "n0") -> list[int]:
    effects = net.nodes[NodeId(name)].effects
    return [e.index for e in effects if isinstance(e, fx.WrittenAdvanced)]


def propose(net: Net, count: int = 1, *, when_written: bool = True) -> None:
    net.handle("n0", ev.ProposalReceived(count, 100, "p", when_written))


def without_syncs(count: int = 3) -> Net:
    """n0 leads; from now on nothing reaches a disk."""
    net = Net(count)
    net.elect("n0")
    for node in net.nodes.values():
        node.auto_flush = False
    return net


def test_written_by_a_majority_is_told_and_commits_nothing() -> None:
    net = without_syncs()
    propose(net, 3)
    assert told(net) == [], "the leader alone is no majority"
    net.deliver()
    assert told(net) == [3]
    assert [net.raft(name).commit for name in net.names] == [0, 0, 0]
    net.flush("n1")
    net.flush("n2")
    net.deliver()
    assert net.raft("n0").commit == 3


@pytest.mark.parametrize("reachable", [0, 1, 2, 3, 4])
def test_it_takes_a_majority(reachable: int) -> None:
    net = without_syncs(5)
    for name in net.names[reachable + 1 :]:
        net.isolate(name)
    propose(net)
    net.deliver()
    assert told(net) == ([1] if reachable >= 2 else [])


def test_nobody_answers_early_unless_asked() -> None:
    net = without_syncs()
    propose(net, when_written=False)
    seen: list[object] = []
    net.drop = lambda _from, _to, message: bool(seen.append(message))
    net.deliver()
    assert told(net) == []
    assert not [m for m in seen if isinstance(m, AppendReply)]


def test_what_comes_later_is_not_asked_about() -> None:
    net = without_syncs()
    propose(net)
    net.deliver()
    propose(net, when_written=False)
    net.deliver()
    assert told(net) == [1]


def test_a_group_of_one_has_it_at_once() -> None:
    net = without_syncs(1)
    propose(net)
    assert told(net) == [1]
    assert net.raft("n0").commit == 0


def test_the_next_leader_owes_nothing() -> None:
    net = without_syncs()
    net.isolate("n0")
    propose(net)
    for node in net.nodes.values():
        node.auto_flush = True
    net.elect("n1")
    net.heal()
    net.run(1.0)
    assert told(net) == []
    assert told(net, "n1") == []
    assert net.raft("n1").commit >= 1
