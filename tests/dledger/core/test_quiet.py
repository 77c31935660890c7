"""Silence of a group without traffic (R30): when it begins, and all that ends it."""

from __future__ import annotations

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import Heartbeat, HeartbeatReply, VoteReply, VoteRequest
from dledger.core.types import EntryId, Index, NodeId, Role, Term

from .net import Net

CHECK = 20.0


def watch(net: Net, name: str, *others: str, spread: float = 0.0) -> None:
    """The hosts of these others are heard by that of `name`, and hear it."""
    net.handle(name, ev.HostsWatched(frozenset(map(NodeId, others)), spread))


def watching(seed: int = 1, count: int = 3, **settings: object) -> tuple[Net, str]:
    """A group with a leader; all its hosts watch each other."""
    net = Net(count, seed, **{"quiet_after": 0.3, "quiet_check": CHECK, **settings})
    leader = net.elect()
    for name in net.names:
        watch(net, name, *(other for other in net.names if other != name))
    return net, leader


def quiet(net: Net) -> set[str]:
    return {name for name in net.names if net.raft(name).is_quiet}


def silent(seed: int = 1, count: int = 3) -> tuple[Net, str]:
    """A group that is quiet."""
    net, leader = watching(seed, count)
    net.run(1.0)
    assert quiet(net) == set(net.names)
    return net, leader


def messages(net: Net, seconds: float) -> int:
    """How many are delivered meanwhile."""
    seen = 0

    def count(*_: object) -> bool:
        nonlocal seen
        seen += 1
        return False

    net.drop = count
    net.run(seconds)
    net.drop = lambda *_: False
    return seen


# -- it begins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_group_without_traffic_sends_and_wakes_for_nothing(count: int) -> None:
    net, leader = silent(count=count)
    assert messages(net, CHECK / 2) == 0
    assert net.leader() == leader
    assert all(net.raft(name).deadline() > net.now + 5 for name in net.names)


def test_without_hosts_no_group_is_quiet() -> None:
    net = Net(quiet_after=0.3)
    net.elect()
    net.run(5.0)
    assert not quiet(net)
    assert messages(net, 1.0) > 30


def test_a_group_with_lease_reads_is_never_quiet() -> None:
    net, _ = watching(lease_reads=True)
    net.run(5.0)
    assert not quiet(net)


def test_a_leader_asks_all_again_now_and_then_and_they_stay_quiet() -> None:
    net, leader = silent()
    assert 4 <= messages(net, 1.1 * CHECK) <= 12
    assert net.leader() == leader
    assert quiet(net) == set(net.names)


@pytest.mark.parametrize("lacks", ["commit", "flush", "entry"])
def test_a_follower_that_lacks_something_is_not_quiet(lacks: str) -> None:
    net, leader = watching()
    follower = net.followers()[0]
    state, last = net.raft(follower).state, net.raft(leader).log.last.index
    commit = last
    if lacks == "flush":
        state.flushed = Index(last - 1)
    elif lacks == "commit":
        state.commit = Index(last - 1)
        state.matched = Index(last - 1)
    else:
        commit = Index(last + 1)
    beat = Heartbeat(NodeId(leader), state.term, commit, 99, quiet=True)
    effects = net.raft(follower).handle(ev.MessageReceived(beat), net.now)
    state.flushed = state.commit = state.matched = last
    assert not state.quiet
    assert [e.message.quiet for e in effects if isinstance(e, fx.Send)] == [False]


def test_a_leader_with_a_follower_that_hears_it_and_is_not_watched_is_not_quiet() -> None:
    """Its own election timer runs: it would stand."""
    net, leader = watching()
    watch(net, leader, net.followers()[0])
    net.run(5.0)
    assert leader not in quiet(net)


def test_a_leader_waits_for_what_is_proposed() -> None:
    net, leader = watching()
    for _ in range(20):
        net.propose(leader)
        net.run(0.2)
        assert not quiet(net)


# -- it ends ---------------------------------------------------------------------------------------


def test_a_proposal_wakes_all_and_is_committed() -> None:
    net, leader = silent()
    net.run(10.0)
    net.propose(leader)
    net.run(0.15)
    assert not quiet(net)
    assert all(net.raft(name).commit == net.raft(leader).log.last.index for name in net.names)
    net.run(2.0)
    assert quiet(net) == set(net.names)
    assert net.leader() == leader


def is_ready(effects: list[fx.Effect]) -> bool:
    return any(isinstance(effect, fx.ReadReady) for effect in effects)


def test_a_read_of_a_quiet_leader_is_served_by_a_round_that_begins_with_it() -> None:
    net, leader = silent()
    assert not is_ready(net.handle(leader, ev.ReadRequested(7)))
    assert not is_ready(net.nodes[NodeId(leader)].effects)
    net.run(0.05)
    assert is_ready(net.nodes[NodeId(leader)].effects)


def test_a_quiet_leader_that_others_have_replaced_serves_no_read() -> None:
    """Its host has not noticed; hosts decide nothing."""
    net, leader = silent()
    net.isolate(leader)
    one, other = net.followers()
    for name in (one, other):
        watch(net, name, one if name == other else other)
    net.run(2.0)
    new = net.leader()
    assert new != leader
    net.propose(new)
    net.run(0.2)
    net.handle(leader, ev.ReadRequested(7))
    net.run(5.0)
    assert not is_ready(net.nodes[NodeId(leader)].effects)
    assert net.raft(leader).role is not Role.LEADER


def test_a_read_through_a_quiet_follower() -> None:
    net, _ = silent()
    follower = net.followers()[0]
    net.handle(follower, ev.ReadRequested(7))
    net.run(0.1)
    assert is_ready(net.nodes[NodeId(follower)].effects)


def test_when_the_leaders_host_is_lost_the_others_elect_soon() -> None:
    net, leader = silent()
    net.run(10.0)
    net.isolate(leader)
    one, other = net.followers()
    watch(net, one, other)
    watch(net, other, one)
    net.run(0.3)
    assert net.leader() != leader


def test_many_groups_do_not_stand_in_the_same_moment() -> None:
    deadlines = []
    for seed in range(20):
        net, leader = silent(seed)
        one, other = net.followers()
        watch(net, one, other, spread=10.0)
        net.handle(one, ev.PeerDisconnected(NodeId(leader), bulk=False, control=True))
        deadlines.append(net.raft(one).deadline() - net.now)
    assert max(deadlines) > 5.0
    assert sum(wait < 0.2 for wait in deadlines) < 5


def due(*, leader_is_heard: bool = False) -> tuple[Net, str, str]:
    """The group, its leader, and a follower whose election is due."""
    net, leader = silent()
    one, other = net.followers()
    if not leader_is_heard:
        net.isolate(leader)
        watch(net, one, other)
        watch(net, other, one)
    net.now = net.raft(one).state.election_deadline
    return net, leader, one


def test_an_election_that_is_held_begins_when_it_may() -> None:
    net, _, one = due()
    assert net.handle(one, ev.ElectionHeld(held=True)) == []
    assert net.handle(one, ev.TimerFired()) == []
    assert net.raft(one).deadline() == float("inf")
    net.now += 100.0
    assert net.handle(one, ev.TimerFired()) == []
    assert net.raft(one).role is Role.FOLLOWER
    assert net.handle(one, ev.ElectionHeld(held=False)) == []
    assert net.raft(one).deadline() == net.now
    net.handle(one, ev.TimerFired())
    net.deliver()
    assert net.raft(one).role is Role.LEADER


def test_a_quiet_follower_whose_patience_ends_is_held_without_a_message() -> None:
    net, _, one = due(leader_is_heard=True)
    assert net.handle(one, ev.ElectionHeld(held=True)) == []
    assert net.handle(one, ev.TimerFired()) == []
    net.handle(one, ev.ElectionHeld(held=False))
    net.handle(one, ev.TimerFired())
    assert net.raft(one).role is Role.PRE_CANDIDATE


def test_a_leader_that_is_heard_ends_the_wait_of_a_held_election() -> None:
    net, leader, one = due()
    net.handle(one, ev.ElectionHeld(held=True))
    net.heal()
    term = net.raft(leader).term
    last = net.raft(leader).log.last.index
    heard = Heartbeat(NodeId(leader), term, last, net.raft(leader).state.round + 1)
    net.handle(one, ev.MessageReceived(heard))
    deadline = net.raft(one).deadline()
    assert net.now < deadline < net.now + 1.0
    net.handle(one, ev.ElectionHeld(held=False))
    assert net.raft(one).deadline() == deadline


def test_a_vote_for_another_candidate_ends_the_wait_of_a_held_election() -> None:
    net, _, one = due()
    other = next(name for name in net.followers() if name != one)
    net.handle(one, ev.ElectionHeld(held=True))
    asked = VoteRequest(NodeId(other), Term(9), net.raft(one).log.last, False, False)
    net.handle(one, ev.MessageReceived(asked))
    assert net.raft(one).state.voted_for == other
    assert net.now < net.raft(one).deadline() < net.now + 1.0


def test_an_election_that_is_not_due_and_a_leader_are_not_held() -> None:
    net, leader, one = due()
    net.now -= 0.01
    before = net.raft(one).deadline()
    net.handle(one, ev.ElectionHeld(held=True))
    net.handle(leader, ev.ElectionHeld(held=True))
    assert net.raft(one).deadline() == before
    assert net.raft(leader).deadline() < float("inf")
    net.handle(leader, ev.ElectionHeld(held=False))
    assert net.raft(leader).role is Role.LEADER


def test_a_leader_without_a_majority_of_hosts_wakes_and_steps_down() -> None:
    net, leader = silent()
    net.isolate(leader)
    watch(net, leader)
    net.run(2.0)
    assert net.raft(leader).role is not Role.LEADER


def test_a_host_that_is_down_leaves_the_others_groups_quiet_until_it_is_back() -> None:
    net, leader = silent()
    one, other = net.followers()
    net.isolate(other)
    watch(net, leader, one)
    watch(net, one, leader)
    net.handle(leader, ev.PeerDisconnected(NodeId(other), bulk=True, control=True))
    assert messages(net, 5.0) == 0
    assert {leader, one} <= quiet(net)
    net.heal()
    watch(net, leader, one, other)
    assert leader not in quiet(net)


def test_a_quiet_leader_is_not_deposed_for_what_was_not_said() -> None:
    net, leader = silent()
    net.run(10.0)
    net.isolate(leader)
    net.propose(leader)
    net.run(0.25)
    assert net.raft(leader).role is Role.LEADER
    net.run(1.0)
    assert net.raft(leader).role is not Role.LEADER


def test_a_follower_that_is_asked_for_a_vote_wakes_its_leader_and_refuses() -> None:
    net, leader = silent()
    voter, rival = net.followers()
    net.run(5.0)
    asks = VoteRequest(NodeId(rival), Term(9), EntryId(Term(9), Index(99)), pre=True)
    effects = net.handle(voter, ev.MessageReceived(asks))
    sent = [(e.to, e.message) for e in effects if isinstance(e, fx.Send)]
    assert any(to == leader and isinstance(m, HeartbeatReply) and not m.quiet for to, m in sent)
    assert [m.granted for _, m in sent if isinstance(m, VoteReply)] == [False]
    net.deliver()
    assert leader not in quiet(net)


def test_a_connection_of_its_own_that_ends_wakes_a_group() -> None:
    """Its host goes on: that says nothing of this group's node."""
    net, leader = silent()
    one, other = net.followers()
    net.isolate(leader)
    for name in (one, other):
        net.handle(name, ev.PeerDisconnected(NodeId(leader), bulk=True, control=True))
    net.run(0.6)
    assert net.leader() != leader


def test_a_member_that_connects_wakes_its_leader_unless_its_host_is_watched() -> None:
    """A learner without a host asks for no votes: else it would wait for `quiet_check`."""
    net, leader = silent()
    one, other = net.followers()
    net.isolate(other)
    watch(net, leader, one)
    watch(net, one, leader)
    net.run(1.0)
    assert {leader, one} <= quiet(net)
    for stranger in (one, "n9"):
        net.handle(leader, ev.PeerConnected(NodeId(stranger)))
        assert leader in quiet(net)
    net.handle(one, ev.PeerConnected(NodeId(other)))
    assert one in quiet(net)
    net.handle(leader, ev.PeerConnected(NodeId(other)))
    assert leader not in quiet(net)


def test_a_leader_that_gives_up_wakes_its_followers() -> None:
    """It may be ill and not stand again; their timers do not run until they are told."""
    net, leader = silent()
    newer = VoteReply(NodeId(net.followers()[0]), Term(9), Term(1), granted=False, pre=False)
    net.handle(leader, ev.MessageReceived(newer))
    net.deliver()
    assert not quiet(net)


def test_a_follower_that_is_not_asked_for_long_looks_for_a_leader() -> None:
    net, leader = silent()
    net.isolate(leader)  # and no host notices
    net.run(4 * CHECK, step=0.05)
    assert net.leader() != leader
