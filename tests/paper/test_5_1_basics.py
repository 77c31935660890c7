"""Section 5.1, "Raft basics": states, terms, and what a larger or smaller term does."""

from __future__ import annotations

import itertools

import pytest

from dledger.core.messages import (
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import NO_ENTRY, NO_INDEX, NodeId, Role, Term
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, answers, ask, begin_with, leaders, ranged, receive, stand


def test_exactly_one_leader_and_the_others_follow() -> None:
    """ "In normal operation there is exactly one leader and all of the other servers are
    followers." """
    # Given a group that was just started,
    net = Net(5)
    # when time passes without faults,
    net.run(3.0)
    # then one leads and four follow it.
    assert len(leaders(net)) == 1
    followers = [n.raft for n in net.nodes.values() if n.raft.role is Role.FOLLOWER]
    assert [raft.leader for raft in followers] == [leaders(net)[0]] * 4


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_at_most_one_leader_in_a_term(order: tuple[int, ...]) -> None:
    """ "Raft ensures that there is at most one leader in a given term." """
    # Given two of three servers that stand in the same term,
    net = Net(3)
    stand(net, "n0")
    stand(net, "n1", after=0.0)
    assert net.raft("n0").term == net.raft("n1").term
    # when their requests arrive in any order,
    requests = [w for w in net.wires if isinstance(w[2], VoteRequest)]
    net.wires = [requests[place] for place in order]
    net.deliver()
    # then no more than one of them leads, and the third decided who.
    assert len(leaders(net)) == 1
    assert net.raft("n2").status().voted_for == leaders(net)[0]


def test_a_term_with_a_split_vote_ends_without_a_leader_and_a_new_one_begins() -> None:
    """ "In this case the term will end with no leader; a new term (with a new election) will
    begin shortly." """
    # Given four servers of which two stand, with two votes each,
    net = Net(4)
    stand(net, "n0")
    stand(net, "n1", after=0.0)
    split = net.raft("n0").term
    wanted = {("n0", "n2"), ("n1", "n3")}
    net.wires = [w for w in net.wires if (w[0], w[1]) in wanted]
    net.deliver()
    assert leaders(net) == []
    # when the candidates time out,
    net.run(3.0)
    # then a later term has a leader, and that term had none.
    assert net.raft(net.leader()).term > split
    assert split not in net.checker.leaders


def test_the_current_term_increases_monotonically_over_time() -> None:
    """ "Each server stores a current term number, which increases monotonically over time." """
    # Given a server in term 5,
    net = Net()
    receive(net, "n1", Heartbeat(N0, Term(5), NO_INDEX, 1))
    # when it hears of an earlier term, and when it restarts,
    receive(net, "n1", Heartbeat(N2, Term(3), NO_INDEX, 1))
    net.restart(N1)
    # then it is in term 5.
    assert net.raft("n1").term == 5


def test_the_larger_term_is_taken_over() -> None:
    """ "If one server's current term is smaller than the other's, then it updates its current
    term to the larger value." """
    # Given servers in term 0,
    net = Net()
    # when requests with larger terms arrive,
    receive(net, "n1", ranged(N0, 4, (-1, -1), [4]))
    receive(net, "n2", VoteRequest(N0, Term(6), NO_ENTRY, pre=False))
    # then they are in those terms and say so in their answers.
    assert (net.raft("n1").term, net.raft("n2").term) == (4, 6)
    assert answers(net, AppendReply)[-1].term == 4
    assert answers(net, VoteReply)[-1].term == 6


def test_a_leader_whose_term_is_out_of_date_reverts_to_follower() -> None:
    """ "If a candidate or leader discovers that its term is out of date, it immediately reverts
    to follower state." """
    for message in (
        HeartbeatReply(N1, Term(9), 0, NO_INDEX, NO_INDEX),
        AppendReply(N1, Term(9), False, NO_INDEX, NO_INDEX, NO_INDEX, NO_ENTRY),
        Heartbeat(N1, Term(9), NO_INDEX, 1),
        ranged(N1, 9, (-1, -1)),
    ):
        # Given a leader,
        net = Net()
        net.elect("n0")
        # when any message tells it of a later term,
        receive(net, "n0", message)
        # then it follows at once.
        assert (net.raft("n0").role, net.raft("n0").term) == (Role.FOLLOWER, 9)


def test_a_candidate_whose_term_is_out_of_date_reverts_to_follower() -> None:
    """ "If a candidate or leader discovers that its term is out of date, it immediately reverts
    to follower state." """
    # Given a candidate,
    net = Net()
    stand(net, "n0")
    # when a voter answers out of a later term,
    running = net.raft("n0").term
    receive(net, "n0", VoteReply(N1, Term(9), running, granted=False, pre=False))
    # then it follows, in that term.
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.FOLLOWER, 9)


def test_a_request_with_a_stale_term_is_rejected() -> None:
    """ "If a server receives a request with a stale term number, it rejects the request." """
    # Given a server in term 5 with one entry,
    net = Net()
    begin_with(net, "n1", [5])
    # when a leader and a candidate of term 4 ask something of it,
    receive(net, "n1", ranged(NodeId("n0"), 4, (-1, -1), [4, 4], commit=1))
    receive(net, "n1", Heartbeat(N0, Term(4), NO_INDEX, 7))
    vote = [message.granted for message in answers(net, VoteReply)]
    appended, beaten = answers(net, AppendReply)[-1], answers(net, HeartbeatReply)[-1]
    reply = ask(net, "n1", VoteRequest(N2, Term(4), NO_ENTRY, pre=False))
    # then each is refused with term 5, and nothing changed.
    assert (appended.success, appended.term) == (False, 5)
    assert (beaten.round, beaten.term) == (0, 5)
    assert (vote, reply.granted, reply.term) == ([], False, 5)
    assert net.raft("n1").log.last == (5, 0)
    assert net.raft("n1").leader is None
