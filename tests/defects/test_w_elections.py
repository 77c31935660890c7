"""Defects of DLedger about who leads: docs/spec/raft_log.md 4.1 W13; 4.2 W17 W22 W28."""

from __future__ import annotations

import statistics

import pytest

from dledger.core.messages import AppendEntries, AppendReply, VoteRequest
from dledger.core.types import Role, Term
from dledger.wire import frames
from dledger.wire import messages as wire
from tests.dledger.core.net import Net
from tests.paper.steps import N2, ask, begin_with, leaders, terms_of

from .groups import led


def test_w13_an_inflated_term_wins_nothing() -> None:
    """There: the term of the election was compared instead of that of the last entry."""
    net = led(entries=5)
    net.isolate("n2")
    net.propose("n0", 5)
    net.run(0.3)
    net.heal()
    net.isolate("n0")
    net.now += 1.0
    behind = net.raft("n2").log.last
    for pre in (True, False):
        reply = ask(net, "n1", VoteRequest(N2, Term(1000), behind, pre))
        assert not reply.granted


def test_w17_a_long_isolated_node_rejoins_within_an_election_timeout() -> None:
    """There: it comes back as candidate with a large term and stays one."""
    net = led(entries=5)
    net.isolate("n2")
    net.run(30.0)
    net.propose("n0", 5)
    net.run(0.3)
    net.heal()
    net.run(0.6)
    assert (net.raft("n2").role, net.raft("n2").leader) == (Role.FOLLOWER, "n0")
    assert net.raft("n2").log.last == net.raft("n0").log.last


def test_w17_also_one_whose_term_is_far_above_the_groups() -> None:
    """Such a vote file may come from an import; the group goes to its term once, no more."""
    net = led(entries=5)
    begin_with(net, "n2", terms_of(net, "n2"), term=400)
    net.run(2.0)
    leader = net.raft(net.leader())
    assert leader.term > 400
    net.run(5.0)
    assert net.raft(net.leader()).term == leader.term
    assert {node.raft.leader for node in net.nodes.values()} == {leader.node_id}


def test_w17_a_leadership_that_cannot_begin_ends() -> None:
    """There: the leader waits for ever for its first commit."""
    net = led(entries=5)
    net.drop = lambda _s, _t, m: isinstance(m, AppendEntries)
    net.elect("n1")
    term = net.raft("n1").term
    net.run(5.0)
    assert net.raft("n1").role is not Role.LEADER or net.raft("n1").term > term
    net.drop = lambda *_: False
    net.run(3.0)
    leader = net.raft(net.leader())
    assert leader.commit == leader.log.last.index


def test_w22_bulk_data_that_stands_still_elects_nobody() -> None:
    """There: heartbeats wait behind entries on one connection."""
    net = led(entries=5)
    term = net.raft("n0").term
    net.drop = lambda _s, _t, m: isinstance(m, AppendEntries | AppendReply)
    net.propose("n0", 1000)
    net.run(2.0)
    assert (leaders(net), net.raft("n0").term) == (["n0"], term)
    net.drop = lambda *_: False
    net.run(1.0)
    assert net.raft("n0").commit == 1005


def test_w22_heartbeats_and_votes_have_a_lane_without_entries() -> None:
    """What may travel on which lane is a set of frame types, held by the receiving side."""
    heartbeat = {frames.FrameType.HEARTBEAT, frames.FrameType.HEARTBEAT_REPLY}
    votes = {frames.FrameType.VOTE_REQUEST, frames.FrameType.VOTE_REPLY}
    assert heartbeat | votes <= wire.CONTROL_TYPES
    assert not (heartbeat | votes) & wire.BULK_TYPES
    bulk = {frames.FrameType.APPEND, frames.FrameType.APPEND_REPLY, frames.FrameType.SNAPSHOT}
    assert bulk | {frames.FrameType.RANGE_REPLY} == wire.BULK_TYPES


@pytest.mark.parametrize("backlog", [0, 5000])
def test_w28_a_new_leader_is_there_within_a_second_as_a_rule(backlog: int) -> None:
    """There: 10 s of fixed timers, after the backlog was worked off."""
    waits = []
    for seed in range(20):
        net = Net(seed=seed)
        net.elect("n0")
        net.run(0.2)
        net.drop = lambda _s, _t, m: isinstance(m, AppendReply)
        if backlog:
            net.propose("n0", backlog)
        net.deliver()
        net.drop = lambda *_: False
        net.isolate("n0")
        since = net.now
        while not any(takes_entries(net, name) for name in ("n1", "n2")):
            net.run(0.02)
            assert net.now - since < 3.0
        waits.append(net.now - since)
    assert statistics.median(waits) < 1.0


def takes_entries(net: Net, name: str) -> bool:
    """Leads, and its no-op is committed."""
    status = net.raft(name).status()
    return status.role is Role.LEADER and status.commit >= status.noop_index
