"""Dissertation 4.2.3, "Disruptive servers": a leader that is heard is not voted away."""

from __future__ import annotations

from dledger.core import events as ev
from dledger.core.messages import Heartbeat, VoteRequest
from dledger.core.types import NO_INDEX, EntryId, Index, NodeId, Role, Term
from tests.dledger.core.net import Net

from .steps import N1, N2, ask, receive

BETTER = EntryId(Term(80), Index(99))


def led() -> Net:
    net = Net()
    net.elect("n0")
    net.run(0.3)
    return net


def test_neither_term_nor_vote_within_the_timeout() -> None:
    """ "If a server receives a RequestVote request within the minimum election timeout of hearing
    from a current leader, it does not update its term or grant its vote." """
    for voter in ("n1", "n0"):
        # Given a follower that hears the leader, and the leader, which hears a majority,
        net = led()
        term = net.raft(voter).term
        # when one with a larger term and a longer log asks,
        reply = ask(net, voter, VoteRequest(N2, Term(90), BETTER, pre=False))
        # then the answer is no, in the old term.
        assert (reply.granted, reply.term) == (False, term)
        assert net.raft(voter).status().term == term


def test_the_leader_stays_however_often_it_is_asked() -> None:
    """ "If a leader is able to get heartbeats to its cluster, then it will not be deposed by larger
    term numbers." """
    # Given a leader that everybody hears,
    net = led()
    term = net.raft("n0").term
    # when requests of ever larger terms come every 50 ms,
    for number in range(100):
        for voter in ("n0", "n1"):
            receive(net, voter, VoteRequest(N2, Term(90 + number), BETTER, pre=False))
        net.wires = [w for w in net.wires if w[1] != N2]
        net.run(0.05)
    # then it leads, in its term.
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.LEADER, term)


def test_a_voter_that_hears_no_leader_takes_the_term_also_without_a_vote() -> None:
    """The rule protects leaders, nobody else: without one, 5.1 holds (a larger term is taken)."""
    # Given a voter whose leader has been silent for a timeout,
    net = led()
    net.isolate("n0")
    net.now += 0.3
    # when a candidate with a worse log asks in a larger term,
    reply = ask(net, "n1", VoteRequest(N2, Term(9), EntryId(Term(0), Index(0)), pre=False))
    # then it is refused in that term.
    assert (reply.granted, reply.term, net.raft("n1").term) == (False, 9, 9)


def test_the_leader_may_appoint_its_successor() -> None:
    """ "Those RequestVote requests can include a special flag ... ("I have permission to disrupt
    the leader - it told me to!")" """
    # Given a leader that everybody hears,
    net = led()
    # when it hands over to n1,
    net.handle("n0", ev.TransferRequested(N1, 1))
    net.deliver()
    # then n1 leads at once, without anybody having waited for a timeout.
    assert net.leader() == "n1"
    assert net.raft("n0").role is Role.FOLLOWER


def test_the_flag_of_a_stranger_is_worth_nothing() -> None:
    """Only a member can have been told by the leader."""
    # Given a follower that hears its leader,
    net = led()
    # when somebody who is not of the group claims to have been appointed,
    request = VoteRequest(NodeId("nx"), Term(9), BETTER, pre=False, transfer=True)
    reply = ask(net, "n1", request)
    # then that is refused like any other.
    assert not reply.granted
    assert net.raft("n1").leader == "n0"


def test_a_deposed_leaders_heartbeat_does_not_count_as_a_leader() -> None:
    """ "... hearing from a *current* leader" """
    # Given a server in term 5 that hears no leader of it,
    net = Net()
    receive(net, "n1", Heartbeat(N2, Term(5), NO_INDEX, 1))
    net.now += 1.0
    # when a leader of term 4 sends heartbeats, and then a candidate of term 6 asks,
    receive(net, "n1", Heartbeat(net.raft("n0").node_id, Term(4), NO_INDEX, 1))
    reply = ask(net, "n1", VoteRequest(N2, Term(6), EntryId(Term(-1), Index(-1)), pre=False))
    # then the old leader was no reason to refuse.
    assert reply.granted
