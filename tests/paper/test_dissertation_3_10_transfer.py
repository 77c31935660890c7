"""Dissertation 3.10, "Leadership transfer extension"."""

from __future__ import annotations

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import AppendEntries, TimeoutNow
from dledger.core.types import Reason, Role
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, answers, receive


def led() -> Net:
    net = Net()
    net.elect("n0")
    net.run(0.3)
    return net


def test_1_the_prior_leader_stops_accepting_requests() -> None:
    """ "The prior leader stops accepting new client requests." """
    # Given a leader whose successor lacks an entry,
    net = led()
    net.isolate("n1")
    net.propose("n0")
    net.deliver()
    # when the transfer begins,
    net.handle("n0", ev.TransferRequested(N1, 1))
    # then a proposal is refused, for certain and with that reason.
    (refused,) = net.propose("n0")
    assert refused == fx.ProposalRejected("p1", Reason.LEADER_TRANSFERRING, N0)


def test_2_the_target_gets_the_whole_log_first() -> None:
    """ "The prior leader fully updates the target server's log to match its own, using the normal
    log replication mechanism." """
    # Given a target that has not got the last three entries,
    net = led()
    net.drop = lambda _s, to, m: to == N1 and isinstance(m, AppendEntries)
    net.propose("n0", 3)
    net.deliver()
    # when the transfer is asked for, then it is not told to stand yet;
    net.handle("n0", ev.TransferRequested(N1, 1))
    assert answers(net, TimeoutNow) == []
    # when it has them, then it is, and it leads with them all.
    net.drop = lambda *_: False
    net.run(0.9)
    assert net.leader() == "n1"
    assert net.raft("n1").log.term_at(3) == 1


def test_3_timeout_now_is_as_if_the_election_timer_had_fired() -> None:
    """ "This request has the same effect as the target server's election timer firing: the target
    server starts a new election (incrementing its term and becoming a candidate)." """
    # Given a follower of n0,
    net = led()
    term = net.raft("n1").term
    # when its leader tells it to, then it stands at once, without a rehearsal;
    receive(net, "n1", TimeoutNow(N0, term))
    assert (net.raft("n1").role, net.raft("n1").term) == (Role.CANDIDATE, term + 1)
    # when somebody else tells n2 to, or the leader of another term, then it does not.
    receive(net, "n2", TimeoutNow(N1, term))
    receive(net, "n2", TimeoutNow(N0, net.raft("n0").term - 1))
    assert net.raft("n2").role is Role.FOLLOWER


def test_a_transfer_that_comes_to_nothing_is_given_up() -> None:
    """ "If leadership transfer does not complete after about an election timeout, the prior leader
    aborts the transfer and resumes accepting client requests." """
    # Given a transfer to a server that dies as it begins,
    net = led()
    net.isolate("n1")
    net.handle("n0", ev.TransferRequested(N1, 4))
    # when an election timeout has passed,
    net.run(0.8)
    # then the leader takes proposals again, and says how it ended.
    assert isinstance(net.propose("n0")[0], fx.AppendLocal)
    done = [e for e in net.nodes[N0].effects if isinstance(e, fx.TransferDone)]
    assert done == [fx.TransferDone(4, ok=False, reason=Reason.TIMEOUT)]


def test_nothing_that_was_acknowledged_is_lost_by_a_transfer() -> None:
    """Leadership goes to whoever asked for it, ten times in a row, under load."""
    # Given a group that takes entries,
    net = led()
    taken = 0
    # when the lead goes round,
    for turn in range(10):
        leader = net.leader()
        taken += 3 * isinstance(net.propose(leader, 3)[0], fx.AppendLocal)
        net.handle(leader, ev.TransferRequested((N0, N1, N2)[turn % 3], turn))
        net.run(0.5)
    # then all entries are there on all three, and nothing was ever dropped.
    noops = net.raft("n0").term
    assert {node.raft.commit + 1 for node in net.nodes.values()} == {taken + noops}
    assert net.truncations == []
