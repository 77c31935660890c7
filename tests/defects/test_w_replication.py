"""Defects of DLedger that stop or slow replication: W18 W19 W20 W23 W27.

Source: docs/spec/raft_log.md 4.2.
"""

from __future__ import annotations

import pytest

from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.messages import AppendEntries, Message
from dledger.core.types import NodeId, Role
from dledger.errors import DledgerError, OutcomeUnknown
from tests.dledger.core.net import Net
from tests.dledger.replica.test_replica import Net as ReplicaNet
from tests.dledger.replica.test_replica import proposal
from tests.paper.steps import N0, N2, begin_with, terms_of

from .groups import led


def test_w18_everything_twice_is_as_good_as_once() -> None:
    """There: a repeated push ends in a loop of complaints."""
    net = led()
    seen: dict[int, Message] = {}  # kept, so that no other message gets its id

    def twice(source: NodeId, target: NodeId, message: Message) -> bool:
        if id(message) not in seen:
            seen[id(message)] = message
            net.wires.append((source, target, message))
        return False

    net.drop = twice
    for _ in range(20):
        net.propose("n0", 3)
        net.run(0.05)
    net.run(0.5)
    assert {node.raft.commit for node in net.nodes.values()} == {60}
    assert net.truncations == []
    assert net.leader() == "n0"


def test_w18_a_wiped_follower_of_an_idle_group_is_filled() -> None:
    """There: nothing happens until somebody writes."""
    net = led(entries=30)
    net.wipe("n2")
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=9)
    net.run(2.0)
    assert terms_of(net, "n2") == terms_of(net, "n0")
    assert net.raft("n2").commit == net.raft("n0").commit


@pytest.mark.parametrize("lost", range(7))
def test_w19_any_lost_push_of_a_catch_up_is_made_up_for(lost: int) -> None:
    """There: the timer watches the current term's counter; the last lost push waits for ever."""
    net = Net()
    for name, count in (("n0", 25), ("n1", 25), ("n2", 3)):
        begin_with(net, name, [1] * count)
    net.nodes[N0].frame_entries_max = 5
    passed = 0

    def drop(_source: NodeId, target: NodeId, message: Message) -> bool:
        nonlocal passed
        if target != N2 or not isinstance(message, AppendEntries):
            return False
        passed += 1
        return passed == lost + 1

    net.drop = drop
    net.elect("n0")
    net.run(1.2)
    assert passed > lost
    assert terms_of(net, "n2") == terms_of(net, "n0")
    assert net.leader() == "n0"


def test_w20_what_gathers_while_the_window_is_full_goes_in_few_frames() -> None:
    """There: with batching on, each entry is a request of its own."""
    net = led(window_frames_max=4)
    for _ in range(500):
        net.propose("n0")
    frames: list[AppendEntries] = []
    net.drop = lambda _s, to, m: (
        bool(frames.append(m)) if to == N2 and isinstance(m, AppendEntries) else False
    )
    net.deliver(rounds=100_000)
    assert net.raft("n2").log.last.index == 500
    assert len(frames) <= 20


def test_w23_catching_up_is_limited_by_nothing_but_the_round_trips() -> None:
    """There: 20 MiB a second by the clock on the wall."""
    net = Net()
    for name, count in (("n0", 50_000), ("n1", 50_000), ("n2", 10)):
        begin_with(net, name, [1] * count)
    net.elect("n0")
    since = net.now
    while net.raft("n2").log.last.index < 50_000:
        net.run(0.01)
        assert net.now - since < 0.5
    assert net.truncations == []


def test_w27_nothing_pends_on_a_node_that_does_not_lead() -> None:
    """There: requests that were waiting stay in tables for ever."""
    net = led()
    for turn in range(60):
        leader, other = f"n{(turn + 1) % 3}", f"n{turn % 3}"
        net.run(1.0)
        if net.leader() != leader:
            net.elect(leader)
        net.run(0.1)
        net.propose(leader, 3)
        net.handle(leader, ev.ReadRequested(turn))
        net.handle(other, ev.ReadRequested(1000 + turn))
        if turn % 4 == 0:
            net.handle(leader, ev.TransferRequested(NodeId(other), turn))
        if turn % 5 == 0:
            net.wires.clear()
    net.run(2.0)
    for name in net.followers():
        state = net.raft(name).state
        pending = (state.progress, state.uncommitted, state.reads, state.asked_reads, state.votes)
        assert not any(pending)
        assert (state.transfer, state.change, state.uncommitted_bytes) == (None, None, 0)


def test_w27_every_waiting_client_is_told_once() -> None:
    """A proposal of a leadership that ended is answered: its outcome is unknown."""
    net = ReplicaNet()
    outcomes: list[DledgerError | None] = []
    for _ in range(20):
        leader = net.elect()
        leader.replica.propose(proposal(outcomes), net.now)
        for _ in range(15):
            net.wires.clear()
            net.now += 0.2
            leader.replica.timer(net.now)
        net.wires.clear()
        assert leader.replica.node.role is not Role.LEADER
        assert leader.replica._pending.count == 0
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 20
