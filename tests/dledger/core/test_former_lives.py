"""Answers to a process that has ended, at the next one: `core/messages.py` says why none counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.events import MessageReceived
from dledger.core.messages import (
    AppendReply,
    HeartbeatReply,
    Message,
    ReadIndexReply,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from dledger.core.types import NO_ENTRY, NO_INDEX, Index, NodeId, Role, Term

from .net import Net

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def led_before() -> tuple[Net, Term]:
    """n0 has led a term with five entries, and was started again."""
    net = Net()
    net.elect("n0")
    net.propose("n0", 4)
    net.deliver()
    term = net.raft("n0").term
    net.restart(N0)
    return net, term


def append_reply(term: int, matched: int) -> AppendReply:
    last = Index(matched)
    return AppendReply(N1, Term(term), True, NO_INDEX, last, last, NO_ENTRY)


def test_a_vote_for_a_candidacy_before_the_restart_elects_nobody() -> None:
    """The term is on disk before a vote is asked for; the next life only follows in it."""
    net = Net()
    net.isolate("n0")
    net.now += 1.0
    net.handle("n0", ev.TimerFired())
    net.handle("n0", MessageReceived(VoteReply(N1, Term(1), Term(1), granted=True, pre=True)))
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.CANDIDATE, 1)
    net.restart(N0)
    late = VoteReply(N1, Term(1), Term(1), granted=True, pre=False)
    assert net.handle("n0", MessageReceived(late)) == []
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.FOLLOWER, 1)


def test_a_vote_for_a_candidacy_before_the_restart_does_not_count_in_the_next_one() -> None:
    net = Net()
    net.isolate("n0")
    late = VoteReply(N1, Term(1), Term(1), granted=True, pre=False)
    for term in (1, 2):
        net.now += 2.0
        net.handle("n0", ev.TimerFired())
        rehearsed = VoteReply(N1, Term(term), Term(term), granted=True, pre=True)
        net.handle("n0", MessageReceived(rehearsed))
        assert net.raft("n0").term == term
        if term == 1:
            net.restart(N0)
    assert net.handle("n0", MessageReceived(late)) == []
    assert net.raft("n0").role is Role.CANDIDATE


def test_a_rehearsed_vote_before_the_restart_lets_nobody_do_more_than_ask() -> None:
    """It does not name the candidacy; whoever is asked for the real vote judges anew."""
    net = Net()
    net.elect("n1")
    net.isolate("n0")
    term = net.raft("n0").term + 1
    for ahead in (2.0, 4.0):
        net.clocks["n0"] = lambda now, ahead=ahead: now + ahead
        net.restart(N0)
        net.clocks["n0"] = lambda now, ahead=ahead: now + ahead + 1.0
        net.handle("n0", ev.TimerFired())
        assert net.raft("n0").role is Role.PRE_CANDIDATE
    late = VoteReply(N1, Term(term), Term(term), granted=True, pre=True)
    net.handle("n0", MessageReceived(late))
    assert net.raft("n0").role is Role.CANDIDATE
    net.heal()
    net.deliver()
    assert net.raft("n0").role is Role.CANDIDATE
    assert net.leader() == "n1"


@pytest.mark.parametrize(
    "answer",
    [
        lambda term: append_reply(term, 4),
        lambda term: HeartbeatReply(N1, term, 9, Index(4), Index(4), 1.0),
        lambda term: SnapshotReply(N1, term, Index(4), 100),
        lambda term: ReadIndexReply(N1, term, 7, Index(0)),
    ],
    ids=["append", "heartbeat", "snapshot", "read"],
)
@pytest.mark.parametrize("leads", [False, True])
def test_an_answer_to_the_leader_before_the_restart_is_not_counted(
    answer: Callable[[Term], Message], leads: bool
) -> None:
    """A term is led in one life only, so its answers are those of another term in the next."""
    net, term = led_before()
    if leads:
        for name in ("n1", "n2"):
            net.restart(NodeId(name))
        net.drop = lambda source, target, message: isinstance(message, AppendReply)
        net.elect("n0")
        net.handle("n0", ev.ReadRequested(8))
        assert net.raft("n0").term > term
    before = net.raft("n0").status()
    assert net.handle("n0", MessageReceived(answer(term))) == []
    assert net.raft("n0").status() == before


def test_an_appointment_before_the_restart_counts_only_from_the_leader_that_is_followed() -> None:
    net = Net()
    net.elect("n1")
    late = TimeoutNow(N1, net.raft("n0").term)
    net.restart(N0)
    assert net.handle("n0", MessageReceived(late)) == []
    net.elect("n2")
    assert net.handle("n0", MessageReceived(late)) == []
    assert net.raft("n0").role is Role.FOLLOWER


def test_a_read_asked_for_before_the_restart_is_not_answered() -> None:
    """S9: nobody waits for that number (request_ids.py draws where the numbers of a life begin)."""
    net = Net()
    net.elect("n1")
    net.handle("n0", ev.ReadRequested(7))
    net.restart(N0)
    net.run(0.2)
    assert net.raft("n0").leader == N1
    net.handle("n0", ev.ReadRequested(1007))
    late = ReadIndexReply(N1, net.raft("n1").term, 7, Index(0))
    assert net.handle("n0", MessageReceived(late)) == []
    net.deliver()
    ready = [e for e in net.nodes[N0].effects if isinstance(e, fx.ReadReady)]
    assert ready == [fx.ReadReady(1007, net.raft("n1").commit)]
