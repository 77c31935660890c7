"""Section 6, "Cluster membership changes": what it shares with the one-step changes that are built.

Joint consensus is not built: changes go one server at a time (dissertation, chapter 4).
"""

from __future__ import annotations

from dledger.core.configuration import ChangeKind, Standing
from dledger.core.messages import VoteRequest
from dledger.core.types import EntryId, Index, Role, Term
from tests.dledger.core.net import Net

from .steps import N2, N3, ask


def led(count: int = 3) -> Net:
    net = Net(count)
    net.elect("n0")
    net.propose("n0", 3)
    net.run(0.3)
    return net


def test_a_server_uses_the_latest_configuration_of_its_log() -> None:
    """ "A server always uses the latest configuration in its log, regardless of whether the entry
    is committed." """
    # Given a group of four of which two followers are away, so that nothing is committed,
    net = led(4)
    net.isolate("n2")
    net.isolate("n3")
    # when n3 is removed,
    net.change("n0", ChangeKind.REMOVE, "n3")
    net.deliver()
    # then leader and follower count three members already, and two are a majority of those.
    for name in ("n0", "n1"):
        assert net.configuration(name).voters == ("n0", "n1", "n2")
    net.run(0.2)
    assert net.raft("n0").commit == net.raft("n0").configuration_index


def test_new_servers_join_without_a_vote() -> None:
    """ "New servers join the cluster as non-voting members (the leader replicates log entries to
    them, but they are not considered for majorities)." """
    # Given a group of three with an empty fourth server as a learner,
    net = led()
    net.join("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3")
    net.run(1.0)
    member = net.configuration("n0").member(N3)
    assert member is not None
    assert member.standing is Standing.LEARNER
    # when both other voters are away and the learner has everything,
    net.isolate("n1")
    net.isolate("n2")
    committed = net.raft("n0").commit
    net.propose("n0")
    net.run(0.2)
    # then it has the entry, and that decides nothing; nor does it stand.
    assert net.raft("n3").log.last == net.raft("n0").log.last
    assert net.raft("n0").commit == committed
    net.isolate("n0")
    net.run(5.0)
    assert net.raft("n3").role is Role.FOLLOWER


def test_a_leader_that_is_not_in_the_new_configuration_steps_down() -> None:
    """ "The leader steps down (returns to follower state) once it has committed the ... log entry.
    ... it replicates log entries but does not count itself in majorities." """
    # Given a leader of three that is to be removed,
    net = led()
    net.nodes[N2].auto_flush = False
    net.change("n0", ChangeKind.REMOVE, "n0")
    net.deliver()
    # when it and one of the two that remain have the entry, then that is one of two, no majority;
    assert net.raft("n0").role is Role.LEADER
    assert net.raft("n0").commit < net.raft("n0").configuration_index
    # when both have it, then it is committed, and the leader goes.
    net.flush("n2")
    net.nodes[N2].auto_flush = True
    net.run(0.5)
    assert net.raft("n0").role is Role.FOLLOWER
    assert net.leader() in ("n1", "n2")


def test_servers_disregard_vote_requests_while_a_leader_exists() -> None:
    """ "If a server receives a RequestVote RPC within the minimum election timeout of hearing from
    a current leader, it does not update its term or grant its vote." """
    # Given a follower that has just heard its leader,
    net = led()
    net.run(0.1)
    term = net.raft("n1").term
    # when somebody with a better log and a later term asks for its vote,
    better = EntryId(Term(80), Index(99))
    reply = ask(net, "n1", VoteRequest(N2, Term(90), better, pre=False))
    # then it has neither; "each server waits at least a minimum election timeout", and then it may.
    assert (reply.granted, net.raft("n1").term) == (False, term)
    net.isolate("n0")
    net.now += 0.3
    reply = ask(net, "n1", VoteRequest(N2, Term(90), better, pre=False))
    assert (reply.granted, net.raft("n1").term) == (True, 90)
