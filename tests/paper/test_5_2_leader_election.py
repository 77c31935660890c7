"""Section 5.2, "Leader election"."""

from __future__ import annotations

from dledger.core.config import CoreConfig
from dledger.core.messages import Heartbeat, VoteReply, VoteRequest
from dledger.core.types import NO_ENTRY, NO_INDEX, Role, Term
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, answers, ask, leaders, receive, stand, time_out


def test_servers_begin_as_followers() -> None:
    """ "When servers start up, they begin as followers." """
    # Given nothing,
    # when servers start, for the first time and again,
    net = Net()
    net.elect("n0")
    net.restart(N0)
    # then they follow, also the one that led.
    assert net.raft("n0").role is Role.FOLLOWER
    assert Net().raft("n1").role is Role.FOLLOWER


def test_a_follower_stays_one_while_it_hears_a_leader() -> None:
    """ "A server remains in follower state as long as it receives valid RPCs from a leader or
    candidate." """
    # Given a group with a leader and no clients,
    net = Net()
    net.elect("n0")
    term = net.raft("n0").term
    # when a long time passes in which heartbeats arrive,
    net.run(10.0)
    # then nobody stood.
    assert leaders(net) == ["n0"]
    assert {node.raft.term for node in net.nodes.values()} == {term}


def test_a_leader_sends_heartbeats_without_entries_to_all() -> None:
    """ "Leaders send periodic heartbeats ... to all followers in order to maintain their
    authority." """
    # Given a leader,
    net = Net(5)
    net.elect("n0")
    beats: list[str] = []
    net.drop = lambda _s, to, m: isinstance(m, Heartbeat) and bool(beats.append(to))
    # when a second passes,
    net.run(1.0)
    # then each of the four heard about ten.
    assert all(9 <= beats.count(name) <= 11 for name in ("n1", "n2", "n3", "n4"))


def test_silence_for_an_election_timeout_begins_an_election() -> None:
    """ "If a follower receives no communication over a period of time called the election
    timeout, then it assumes there is no viable leader and begins an election." """
    # Given followers of a leader,
    net = Net()
    net.elect("n0")
    before = net.raft("n0").term
    # when the leader is not heard any more, for less and for more than the timeout,
    net.isolate("n0")
    net.run(0.25)
    assert [net.raft(name).leader for name in ("n1", "n2")] == ["n0", "n0"]
    net.run(2.0)
    # then first nothing happened, and now one of them leads a later term.
    assert net.leader() in ("n1", "n2")
    assert net.raft(net.leader()).term > before


def test_a_candidate_votes_for_itself_in_the_next_term_and_asks_all() -> None:
    """ "It then votes for itself and issues RequestVote RPCs in parallel to each of the other
    servers in the cluster." """
    # Given five servers in term 0,
    net = Net(5)
    # when one of them stands,
    stand(net, "n0")
    # then its term is one more, its vote is its own, and four requests are out.
    status = net.raft("n0").status()
    assert (status.term, status.voted_for) == (1, "n0")
    assert sorted(to for _, to, m in net.wires if isinstance(m, VoteRequest)) == [
        "n1",
        "n2",
        "n3",
        "n4",
    ]


def test_votes_of_a_majority_for_the_same_term_win() -> None:
    """ "A candidate wins an election if it receives votes from a majority of the servers in the
    full cluster for the same term." """
    # Given a candidate of five,
    net = Net(5)
    stand(net, "n0")
    # when one vote comes, twice, and one of another term, then two of five are not enough;
    for vote in (
        VoteReply(N1, Term(1), Term(1), granted=True, pre=False),
        VoteReply(N1, Term(1), Term(1), granted=True, pre=False),
        VoteReply(N2, Term(0), Term(0), granted=True, pre=False),
    ):
        receive(net, "n0", vote)
        assert net.raft("n0").role is Role.CANDIDATE
    # when another one comes, then three are.
    receive(net, "n0", VoteReply(N2, Term(1), Term(1), granted=True, pre=False))
    assert net.raft("n0").role is Role.LEADER


def test_a_server_votes_for_one_candidate_first_come_first_served() -> None:
    """ "Each server will vote for at most one candidate in a given term, on a first-come-
    first-served basis." """
    # Given a server that voted for n0 in term 3,
    net = Net()
    first = VoteRequest(N0, Term(3), NO_ENTRY, pre=False)
    assert ask(net, "n1", first).granted
    # when n2 asks in the same term, also after a restart, and n0 asks again,
    second = VoteRequest(N2, Term(3), NO_ENTRY, pre=False)
    refused = [ask(net, "n1", second).granted]
    net.restart(N1)
    refused.append(ask(net, "n1", second).granted)
    again = ask(net, "n1", first).granted
    # then only n0 has the vote; and in the next term n2 may have it.
    assert (refused, again) == ([False, False], True)
    assert ask(net, "n1", VoteRequest(N2, Term(4), NO_ENTRY, pre=False)).granted


def test_a_new_leader_says_so_at_once() -> None:
    """ "It then sends heartbeat messages to all of the other servers to establish its authority
    and prevent new elections." """
    # Given a candidate,
    net = Net()
    stand(net, "n0")
    net.wires.clear()
    # when it wins, without any time passing,
    receive(net, "n0", VoteReply(N1, Term(1), Term(1), granted=True, pre=False))
    # then a heartbeat to each of the others is on its way.
    assert [to for _, to, m in net.wires if isinstance(m, Heartbeat)] == ["n1", "n2"]


def test_a_candidate_follows_a_leader_of_its_term_or_a_later_one() -> None:
    """ "If the leader's term ... is at least as large as the candidate's current term, then the
    candidate recognizes the leader as legitimate and returns to follower state." """
    for term in (1, 7):
        # Given a candidate of term 1,
        net = Net()
        stand(net, "n0")
        # when a leader of that term or of a later one is heard,
        receive(net, "n0", Heartbeat(N1, Term(term), NO_INDEX, 1))
        # then it follows it.
        raft = net.raft("n0")
        assert (raft.role, raft.leader, raft.term) == (Role.FOLLOWER, "n1", term)


def test_a_candidate_is_not_impressed_by_an_earlier_term() -> None:
    """ "If the term in the RPC is smaller than the candidate's current term, then the candidate
    rejects the RPC and continues in candidate state." """
    # Given a candidate of term 6,
    net = Net()
    receive(net, "n0", Heartbeat(N2, Term(5), NO_INDEX, 1))
    stand(net, "n0")
    # when a leader of term 5 is heard,
    receive(net, "n0", Heartbeat(N2, Term(5), NO_INDEX, 2))
    # then it still stands.
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.CANDIDATE, 6)


def test_a_candidate_that_does_not_win_starts_again() -> None:
    """ "When this happens, each candidate will time out and start a new election by incrementing
    its term and initiating another round of RequestVote RPCs." """
    # Given a candidate that nobody answers,
    net = Net()
    stand(net, "n0")
    first = net.raft("n0").term
    net.wires.clear()
    # when it times out, and would be voted for now,
    stand(net, "n0")
    # then it asks again, in the next term.
    assert net.raft("n0").term == first + 1
    assert {request.term for request in answers(net, VoteRequest)} == {first + 1}


def test_election_timeouts_are_drawn_from_an_interval_anew_each_time() -> None:
    """ "Election timeouts are chosen randomly from a fixed interval." """
    # Given servers with an interval,
    net = Net(5)
    low = CoreConfig(N0, ()).election_timeout_min
    high = CoreConfig(N0, ()).election_timeout_max
    # when each restarts its timeout, five times,
    waits = set()
    for _ in range(5):
        for name in net.names:
            time_out(net, name)
            waits.add(round(net.raft(name).deadline() - net.now, 9))
    # then all are in the interval and nearly all are different.
    assert all(low <= wait <= high for wait in waits)
    assert len(waits) >= 24


def test_split_votes_are_resolved_quickly() -> None:
    """ "Raft uses randomized election timeouts to ensure that split votes are rare and that they
    are resolved quickly." """
    slow = 0
    for seed in range(40):
        # Given five servers that were started at the same moment,
        net = Net(5, seed=seed)
        # when one and a half seconds pass (two and a half of the longest timeouts),
        net.run(1.5)
        # then nearly always one leads.
        slow += not leaders(net)
    assert slow <= 1
