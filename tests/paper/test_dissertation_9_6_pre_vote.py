"""Dissertation 9.6, "Preventing disruptions when a server rejoins the cluster", and 6.2."""

from __future__ import annotations

import pytest

from dledger.core.messages import VoteReply, VoteRequest
from dledger.core.types import NO_ENTRY, Role, Term
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, answers, ask, begin_with, receive, time_out


def test_a_candidate_increments_its_term_only_after_a_majority_would_vote_for_it() -> None:
    """ "A candidate only increments its term if it first learns from a majority of the cluster that
    they would be willing to grant the candidate their votes." """
    # Given one of five whose timer has fired,
    net = Net(5)
    time_out(net, "n0")
    asked = answers(net, VoteRequest)
    # when it asks, and while one other has agreed, then its term is what it was;
    assert [(request.pre, request.term) for request in asked] == [(True, 1)] * 4
    receive(net, "n0", VoteReply(N1, Term(1), Term(1), granted=True, pre=True))
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.PRE_CANDIDATE, 0)
    # when two have, then it stands.
    receive(net, "n0", VoteReply(N2, Term(1), Term(1), granted=True, pre=True))
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.CANDIDATE, 1)


def test_being_asked_changes_nothing() -> None:
    """Pre-vote is a question: neither term nor vote of the one who is asked changes."""
    # Given a voter,
    net = Net()
    before = net.raft("n1").status()
    # when two candidates ask whether it would vote for them,
    replies = [ask(net, "n1", VoteRequest(who, Term(7), NO_ENTRY, pre=True)) for who in (N0, N2)]
    # then it would, for both, and has promised nothing.
    assert [reply.granted for reply in replies] == [True, True]
    after = net.raft("n1").status()
    assert (after.term, after.voted_for) == (before.term, before.voted_for) == (0, None)


@pytest.mark.parametrize("heard", [True, False])
def test_voters_would_not_while_they_hear_a_leader(heard: bool) -> None:
    """ "... and the voters have not received heartbeats from a valid leader for at least a baseline
    election timeout." """
    # Given followers of a leader that is, or is not, heard,
    net = Net()
    net.elect("n0")
    net.run(0.3)
    if not heard:
        net.isolate("n0")
        net.now += 0.3
    # when n2 asks n1,
    last = net.raft("n2").log.last
    reply = ask(net, "n1", VoteRequest(N2, Term(9), last, pre=True))
    # then the silence decides.
    assert reply.granted is not heard


def test_voters_would_not_for_a_log_that_is_behind() -> None:
    """ "... if the candidate's log is sufficiently up-to-date" """
    # Given a voter with three entries,
    net = Net()
    begin_with(net, "n1", [1, 1, 1])
    # when one without any asks, in any term,
    reply = ask(net, "n1", VoteRequest(N0, Term(9), NO_ENTRY, pre=True))
    # then it would not.
    assert not reply.granted


def test_a_partitioned_server_keeps_its_term_and_returns_in_the_same_term() -> None:
    """ "While a server is partitioned, it won't be able to increment its term ... Once the server
    receives a heartbeat from the leader itself, it will return to the follower state (in the same
    term)." """
    # Given a group, and one that is cut off for as long as a hundred elections take,
    net = Net(5)
    net.elect("n0")
    net.run(0.2)
    term = net.raft("n0").term
    net.isolate("n4")
    net.run(60.0)
    assert (net.raft("n4").role, net.raft("n4").term) == (Role.PRE_CANDIDATE, term)
    # when it is back for one heartbeat interval,
    net.heal()
    net.run(0.15)
    # then it follows, in the term that everybody was in all the time.
    assert (net.raft("n4").role, net.raft("n4").leader) == (Role.FOLLOWER, "n0")
    assert {node.raft.term for node in net.nodes.values()} == {term}


def test_one_way_links_do_not_raise_terms() -> None:
    """ "... a partitioned server disrupting the cluster": also one that is heard and does not
    hear."""
    # Given a follower to which nothing comes, and from which everything goes out,
    net = Net()
    net.elect("n0")
    net.run(0.2)
    term = net.raft("n0").term
    net.drop = lambda _source, to, _message: to == N2
    # when it asks for votes for ten seconds,
    net.run(10.0)
    # then the others have not moved.
    assert net.raft("n0").role is Role.LEADER
    assert {net.raft(name).term for name in ("n0", "n1")} == {term}


def test_6_2_a_leader_without_a_majority_steps_down() -> None:
    """ "A leader in Raft steps down if an election timeout elapses without a successful round of
    heartbeats to a majority of its cluster." """
    # Given a leader of five that hears one other only,
    net = Net(5)
    net.elect("n0")
    net.run(0.2)
    for name in ("n2", "n3", "n4"):
        net.isolate(name)
    # when an election timeout (0.6 s) and two heartbeats have passed,
    net.run(1.1)
    # then it does not lead any more, and clients are told so.
    assert net.raft("n0").role is not Role.LEADER
    (refused,) = net.propose("n0")
    assert type(refused).__name__ == "ProposalRejected"
