"""Section 8, "Client interaction": finding the leader, serial numbers, read-only operations."""

from __future__ import annotations

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.types import EntryId, Index, Reason, Role
from dledger.producers.table import Admission, ProducerTable
from tests.dledger.core.net import Net

from .steps import N0, begin_with, stand


def test_a_server_that_does_not_lead_names_the_one_that_does() -> None:
    """ "That server will reject the client's request and supply information about the most recent
    leader it has heard from." """
    # Given a group led by n0,
    net = Net()
    net.elect("n0")
    # when a client asks n1,
    (effect,) = net.propose("n1")
    # then it is refused for certain, and told where to go.
    assert effect == fx.ProposalRejected("p1", Reason.NOT_LEADER, N0)


def test_a_command_with_a_serial_number_is_not_executed_twice() -> None:
    """ "If it receives a command whose serial number has already been executed, it responds
    immediately without re-executing the request." """
    # Given a client's commands 0 and 1, of which 1 was executed at index 8 and the answer was lost,
    table = ProducerTable()
    table.committed("client", "queue", 0, Index(7), 0)
    table.committed("client", "queue", 1, Index(8), 0)
    # when it sends 1 again,
    admission = table.check("client", "queue", 1)
    # then there is nothing to append, and the answer is that of the first time.
    assert admission == Admission(skip=1, wait_for=Index(8), first_index=Index(8))
    assert table.next_sequence("client", "queue") == 2


def test_each_leader_commits_a_noop_at_the_start_of_its_term() -> None:
    """ "Raft handles this by having each leader commit a blank no-op entry into the log at the
    start of its term." """
    # Given a group with entries of term 1 that are committed, and nobody knows (all restarted),
    net = Net()
    for name in net.names:
        begin_with(net, name, [1, 1, 1])
    # when one of them leads, and no client says a word,
    net.elect("n0")
    # then there is an entry of its term behind them, and all four are committed.
    assert net.raft("n0").log.last == EntryId(net.raft("n0").term, Index(3))
    assert net.raft("n0").commit == 3


def test_a_read_before_the_noop_is_committed_waits() -> None:
    """ "A leader must have the latest information on which entries are committed. ... at the start
    of its term, it may not know which those are." """
    # Given a leader whose no-op nobody has yet,
    net = Net()
    for name in net.names:
        begin_with(net, name, [1, 1, 1])
        net.nodes[net.raft(name).node_id].auto_flush = False
    net.elect("n0")
    # when a client reads,
    net.handle("n0", ev.ReadRequested(1))
    net.deliver()
    # then it gets nothing until the no-op is committed, and then everything before it.
    assert ready(net) == []
    for name in net.names:
        net.flush(name)
    net.deliver()
    assert ready(net) == [(1, 3)]


def test_a_leader_asks_a_majority_before_it_answers_a_read() -> None:
    """ "Raft handles this by having the leader exchange heartbeat messages with a majority of the
    cluster before responding to read-only requests." """
    # Given a leader that was replaced and has not heard of it,
    net = Net()
    net.elect("n0")
    net.propose("n0", 2)
    net.run(0.2)
    net.isolate("n0")
    net.now += 0.3
    stand(net, "n1", after=0.0)
    net.deliver()
    net.propose("n1", 5)
    net.deliver()
    assert (net.raft("n0").role, net.raft("n1").role) == (Role.LEADER, Role.LEADER)
    # when a client reads from the old one,
    net.handle("n0", ev.ReadRequested(1))
    net.deliver()
    # then it is not answered; and refused when the old one gives up.
    assert ready(net) == []
    net.run(2.0)
    assert ready(net) == []
    refused = [e for e in net.nodes[N0].effects if isinstance(e, fx.ReadRefused)]
    assert [e.read_id for e in refused] == [1]


def ready(net: Net) -> list[tuple[int, int]]:
    """Reads that n0 may answer, and from which index on."""
    effects = net.nodes[N0].effects
    return [(e.read_id, e.index) for e in effects if isinstance(e, fx.ReadReady)]
