"""Dissertation 6.4, "Processing read-only queries more efficiently": ReadIndex, step by step."""

from __future__ import annotations

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import Heartbeat, HeartbeatReply, ReadIndexReply
from dledger.core.types import NO_INDEX, Index, NodeId, Role, Term
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, receive


def led(entries: int = 4) -> Net:
    net = Net()
    net.elect("n0")
    net.propose("n0", entries)
    net.run(0.3)
    return net


def ready(net: Net, name: str) -> list[tuple[int, int]]:
    effects = net.nodes[NodeId(name)].effects
    return [(e.read_id, e.index) for e in effects if isinstance(e, fx.ReadReady)]


def test_step_1_the_leader_waits_for_an_entry_of_its_term() -> None:
    """ "If the leader has not yet marked an entry from its current term committed, it waits until
    it has done so." """
    # Given a new leader whose no-op does not arrive,
    net = led()
    net.drop = lambda _s, _t, m: type(m).__name__ == "AppendEntries"
    net.elect("n1")
    # when a read is asked for and all heartbeats are answered,
    net.handle("n1", ev.ReadRequested(1))
    net.run(0.3)
    assert net.raft("n1").role is Role.LEADER
    assert ready(net, "n1") == []
    # then it is ready when the no-op is committed, and includes all entries before it.
    net.drop = lambda *_: False
    net.run(0.5)
    assert ready(net, "n1") == [(1, 5)]


def test_step_2_the_read_index_is_the_commit_index_when_it_was_asked() -> None:
    """ "The leader saves its current commit index in a local variable readIndex." """
    # Given a leader with five entries committed,
    net = led()
    assert net.raft("n0").commit == 4
    # when a read is asked for, and more is committed before its round is answered,
    net.drop = lambda _s, _t, m: isinstance(m, Heartbeat)
    net.handle("n0", ev.ReadRequested(1))
    net.propose("n0", 3)
    net.deliver()
    assert net.raft("n0").commit == 7
    net.drop = lambda *_: False
    net.run(0.2)
    # then it need not wait for that.
    assert ready(net, "n0") == [(1, 4)]


def test_step_3_a_round_of_heartbeats_after_the_question_is_answered_by_a_majority() -> None:
    """ "It issues a new round of heartbeats and waits for their acknowledgments from a majority of
    the cluster." """
    # Given a leader with a read, whose heartbeats are out,
    net = led()
    net.handle("n0", ev.ReadRequested(1))
    asked = max(m.round for _, _, m in net.wires if isinstance(m, Heartbeat))
    term = net.raft("n0").term
    net.wires.clear()
    # when answers come of an earlier round, of another term, and of nobody's,
    for reply in (
        HeartbeatReply(N1, term, asked - 1, NO_INDEX, NO_INDEX),
        HeartbeatReply(N1, Term(term - 1), asked, NO_INDEX, NO_INDEX),
        HeartbeatReply(NodeId("nx"), term, asked, NO_INDEX, NO_INDEX),
    ):
        receive(net, "n0", reply)
        assert ready(net, "n0") == []
    # then they prove nothing; one of this round and term does.
    receive(net, "n0", HeartbeatReply(N1, term, asked, NO_INDEX, NO_INDEX))
    assert ready(net, "n0") == [(1, 4)]


def test_step_3_a_new_leader_without_the_old_ones_knowledge() -> None:
    """ "The leader needs to make sure it has not been superseded by a newer leader of which it is
    unaware." """
    # Given a leader that is cut off, and another one elsewhere with newer entries,
    net = led()
    net.isolate("n0")
    net.handle("n0", ev.ReadRequested(1))
    # when time passes,
    net.run(3.0)
    # then the read was never served by the old one.
    assert net.leader() in ("n1", "n2")
    assert ready(net, "n0") == []
    assert [e.read_id for e in net.nodes[N0].effects if isinstance(e, fx.ReadRefused)] == [1]


def test_one_round_serves_any_number_of_reads() -> None:
    """ "It can use a single round of heartbeats for any number of read-only queries that it has
    accumulated." """
    # Given a leader,
    net = led()
    before = net.raft("n0").state.round
    # when two hundred reads come at once,
    for read_id in range(200):
        net.handle("n0", ev.ReadRequested(read_id))
    net.deliver()
    # then all are served, in order, by the round that was out and the one behind it.
    assert [read_id for read_id, _ in ready(net, "n0")] == list(range(200))
    assert net.raft("n0").state.round - before <= 2


def test_followers_ask_for_a_read_index() -> None:
    """ "The follower could issue a request to the leader that just asked for a current readIndex
    ... the follower could then execute steps 4 and 5 on its own state machine." """
    # Given a follower that lacks the newest entries,
    net = led()
    net.drop = lambda _s, to, m: to == N2 and type(m).__name__ == "AppendEntries"
    net.propose("n0", 3)
    net.deliver()
    assert net.raft("n2").log.last.index == 4
    # when it is read from,
    net.handle("n2", ev.ReadRequested(9))
    net.deliver()
    # then it is told the leader's index, up to which it must wait: it has not applied that yet.
    assert ready(net, "n2") == [(9, 7)]
    assert net.raft("n2").commit < 7


def test_a_followers_question_to_a_deposed_leader_is_refused() -> None:
    """A read index is as good as the leadership that stands behind it."""
    # Given a leader that has lost its majority while a follower of it asks,
    net = led()
    net.isolate("n1")
    net.isolate("n0")
    net.cut -= {(N0, N2), (N2, N0)}
    net.handle("n2", ev.ReadRequested(5))
    net.drop = lambda _s, to, m: to == N0 and isinstance(m, HeartbeatReply)
    # when it gives up,
    net.run(3.0)
    # then the question was refused.
    assert ready(net, "n2") == []
    refused = [e.read_id for e in net.nodes[N2].effects if isinstance(e, fx.ReadRefused)]
    assert refused == [5]


def test_an_answer_that_nobody_asked_for_is_dropped() -> None:
    """Late answers, of reads that were given up, serve nothing."""
    # Given a follower without open reads,
    net = led()
    # when an answer comes,
    receive(net, "n1", ReadIndexReply(N0, net.raft("n0").term, 77, Index(4)))
    # then nothing is ready.
    assert ready(net, "n1") == []
