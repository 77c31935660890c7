"""Lease reads: dissertation 6.4.1, and what clocks, restarts and broken connections do to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.config import CoreConfig
from dledger.core.configuration import ChangeKind
from dledger.core.messages import HeartbeatReply, Message, TimeoutNow
from dledger.core.types import NodeId, Role

from .net import Net

N0 = NodeId("n0")
_reads: Iterator[int] = iter(range(1, 1 << 30))


def is_served_at_once(net: Net, name: str) -> bool:
    """Does a read here need nobody's answer?"""
    read_id = next(_reads)
    effects = net.handle(name, ev.ReadRequested(read_id))
    return any(isinstance(e, fx.ReadReady) and e.read_id == read_id for e in effects)


class Race:
    """The leader and one voter hear each other; a third node has long been cut off from the leader.

    The third asks the voter at every moment from which `begin` cuts the leader off for good.
    """

    def __init__(self, **settings: object) -> None:
        self.net = Net(lease_reads=True, **settings)
        self.leader = self.net.elect()
        self.voter, self.rival = self.net.followers()
        for pair in ((self.leader, self.rival), (self.rival, self.leader)):
            self.net.cut.add((NodeId(pair[0]), NodeId(pair[1])))
        self.net.run(1.0)
        raft = self.net.raft(self.leader)
        while raft.state.heartbeat_deadline - self.net.now < 0.09:  # one was answered just now
            self.net.run(0.01)
        assert is_served_at_once(self.net, self.leader)

    def hold_answers(self) -> list[Message]:
        """From now on what is sent to the leader is on its way, until `hand_over`."""
        late: list[Message] = []

        def hold(_source: NodeId, target: NodeId, message: Message) -> bool:
            if target == self.leader:
                late.append(message)
            return target == self.leader

        self.net.drop = hold
        return late

    def hand_over(self, late: list[Message]) -> None:
        assert any(isinstance(message, HeartbeatReply) for message in late)
        for message in late:
            self.net.handle(self.leader, ev.MessageReceived(message))

    def begin(self, seconds: float = 1.0) -> tuple[float, float]:
        """Until when the old leader served, and from when the rival led; seconds from now."""
        net, began = self.net, self.net.now
        net.isolate(self.leader)
        served, led = 0.0, float("inf")
        while net.now < began + seconds:
            net.run(0.001, step=0.001)
            if net.raft(self.rival).role is not Role.LEADER:
                net.raft(self.rival).state.election_deadline = net.now_of(self.rival)
                net.handle(self.rival, ev.TimerFired())
                net.deliver()
            if net.raft(self.rival).role is Role.LEADER:
                led = min(led, net.now - began)
            if net.raft(self.leader).role is Role.LEADER and is_served_at_once(net, self.leader):
                served = net.now - began
        return served, led


def test_a_read_needs_no_round_while_a_majority_has_promised() -> None:
    net = Net(lease_reads=True)
    leader = net.elect()
    net.propose(leader, 3)
    net.deliver()
    net.run(0.2)
    assert is_served_at_once(net, leader)
    follower = net.followers()[0]
    read_id = next(_reads)
    net.handle(follower, ev.ReadRequested(read_id))
    net.deliver(rounds=2)  # the question and its answer
    ready = [e for e in net.nodes[NodeId(follower)].effects if isinstance(e, fx.ReadReady)]
    assert [(e.read_id, e.index) for e in ready] == [(read_id, 3)]
    assert net.raft(leader).state.reads_by_lease == 2
    net.isolate(leader)
    net.run(0.25)
    assert net.raft(leader).role is Role.LEADER
    assert not is_served_at_once(net, leader), "it asks a majority when the lease has run out"
    assert net.raft(leader).state.reads_by_index == 1


def test_leases_are_off_unless_they_are_asked_for() -> None:
    net = Net()
    promises: list[float] = []

    def look(_source: NodeId, _target: NodeId, message: Message) -> bool:
        if isinstance(message, HeartbeatReply):
            promises.append(message.promise)
        return False

    net.drop = look
    leader = net.elect()
    net.run(0.5)
    assert promises
    assert not any(promises)
    assert not is_served_at_once(net, leader)


def test_the_next_leader_waits_for_the_lease_to_end() -> None:
    served, led = Race().begin()
    assert 0.1 < served < led < 0.5


def test_a_broken_connection_takes_no_promise_back() -> None:
    race = Race()
    race.net.handle(race.voter, ev.PeerDisconnected(NodeId(race.leader)))
    served, led = race.begin()
    assert 0.1 < served < led < 0.5


def test_a_node_that_starts_keeps_a_promise_that_it_may_have_given() -> None:
    race = Race()
    race.net.restart(NodeId(race.voter))
    served, led = race.begin()
    assert 0.1 < served < led < 0.5


@pytest.mark.parametrize("repeats", [False, True])
def test_the_lease_counts_from_when_the_round_was_sent(repeats: bool) -> None:
    """The answer was long on its way: the voter has forgotten its promise when it comes.

    `repeats`: the round is sent once more when the commit is told, and still counts from before.
    """
    race = Race()
    late = race.hold_answers()
    race.net.run(0.11)
    if repeats:
        race.net.handle(race.leader, ev.CommitWanted(NodeId(race.voter)))
        race.net.deliver()
    race.net.isolate(race.leader)
    race.net.run(0.18)
    race.hand_over(late)
    served, led = race.begin()
    assert served < led < 0.5


@pytest.mark.parametrize("jump", [0.3, 2.0, 60.0])
def test_a_voter_whose_clock_jumps_keeps_its_promise(jump: float) -> None:
    race = Race()
    race.net.clocks[race.voter] = lambda now: now + jump
    served, led = race.begin()
    assert 0.1 < served < led < 0.6


def test_clocks_that_drift_as_far_as_they_may_and_a_jump_too_small_to_be_seen() -> None:
    """The voter's clock is as fast, the leader's as slow as the bound allows."""
    race = Race()
    began = race.net.now
    race.net.clocks[race.leader] = lambda now: began + (now - began) * 0.95
    race.net.handle(race.voter, ev.TimerFired())  # it looked a moment ago
    race.net.clocks[race.voter] = lambda now: began + (now - began) * 1.05 + 0.045
    served, led = race.begin()
    assert 0.1 < served < led < 0.5


def test_a_leader_whose_clock_runs_back_has_no_lease() -> None:
    race = Race()
    race.net.clocks[race.leader] = lambda now: now - 0.4
    served, led = race.begin()
    assert served == 0.0
    assert led < 0.5


def test_what_is_sent_by_a_clock_that_ran_back_is_worth_nothing() -> None:
    """It stood still until it was where it had been: so much later was the round really sent."""
    race = Race()
    net = race.net
    net.clocks[race.leader] = lambda now: now - 0.15
    late = race.hold_answers()
    assert not is_served_at_once(net, race.leader)  # that sent a round
    net.deliver()
    net.isolate(race.leader)
    net.run(0.2)
    race.hand_over(late)
    served, led = race.begin()
    assert served == 0.0
    assert led < 0.5


def test_who_appoints_a_successor_has_no_lease_any_more() -> None:
    """However late the appointment arrives, and although the transfer was given up."""
    race = Race()
    net = race.net
    told: list[Message] = []

    def hold(_source: NodeId, _target: NodeId, message: Message) -> bool:
        if isinstance(message, TimeoutNow):
            told.append(message)
        return isinstance(message, TimeoutNow)

    net.drop = hold
    net.handle(race.leader, ev.TransferRequested(NodeId(race.voter), 1))
    net.deliver()
    assert told
    net.run(1.0)
    assert net.raft(race.leader).role is Role.LEADER
    assert not is_served_at_once(net, race.leader)
    net.isolate(race.leader)
    net.handle(race.voter, ev.MessageReceived(told[0]))
    net.deliver()
    assert net.raft(race.voter).role is Role.LEADER
    assert net.raft(race.leader).role is Role.LEADER, "it has not heard of that"
    assert not is_served_at_once(net, race.leader)


def test_the_next_leadership_has_leases_again() -> None:
    net = Net(lease_reads=True)
    leader = net.elect()
    net.handle(leader, ev.TransferRequested(None, 1))
    net.run(1.0)
    assert net.leader() != leader
    assert is_served_at_once(net, net.leader())
    net.handle(net.leader(), ev.TransferRequested(NodeId(leader), 2))
    net.run(1.0)
    assert net.leader() == leader
    assert is_served_at_once(net, leader)


def test_the_majority_is_one_of_the_group_in_force() -> None:
    """A voter joins: two of three are no majority any more."""
    race = Race()
    net = race.net
    net.join("n3")
    net.change(race.leader, ChangeKind.ADD, "n3", incarnation=1)
    net.drop = lambda source, target, message: (
        target == race.leader and isinstance(message, HeartbeatReply) and source == "n3"
    )
    while "n3" not in net.configuration(race.leader).voters:
        net.run(0.01)
    net.run(0.3)
    assert net.raft(race.leader).state.progress[NodeId(race.voter)].promised_until > net.now
    assert not is_served_at_once(net, race.leader), "it and one voter are two of four"


def test_who_has_leases_off_promises_nothing() -> None:
    net = Net()
    net.settings["lease_reads"] = True
    net.restart(N0)
    net.run(0.3)
    leader = net.elect("n0")
    net.run(0.5)
    assert not is_served_at_once(net, leader)
    net.deliver()
    ready = [e for e in net.nodes[N0].effects if isinstance(e, fx.ReadReady)]
    assert len(ready) == 1, "a majority is asked as ever"
    net.restart(NodeId("n1"))
    net.run(0.5)
    assert net.leader() == leader
    assert is_served_at_once(net, leader), "two of three promise"


def test_no_lease_before_the_first_entry_of_the_term_is_committed() -> None:
    net = Net(lease_reads=True)
    for node in net.nodes.values():
        node.auto_flush = False
    leader = net.elect()
    net.run(0.2)
    assert not is_served_at_once(net, leader)


def test_a_lease_that_ends_before_it_is_renewed_is_refused_as_a_setting() -> None:
    with pytest.raises(ValueError, match=r"clock_drift_max 0\.4 leaves a lease of 0\.094 s"):
        CoreConfig(N0, (N0,), lease_reads=True, clock_drift_max=0.4).validate()
    with pytest.raises(ValueError, match="must be 0 to below 1"):
        CoreConfig(N0, (N0,), clock_drift_max=1.0).validate()
    CoreConfig(N0, (N0,), clock_drift_max=0.4).validate()
