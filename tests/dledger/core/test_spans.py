"""What a leadership, a candidacy or a term leaves: nothing that is not said to last longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.events import MessageReceived
from dledger.core.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from dledger.core.progress import Progress
from dledger.core.span import Span, fresh, span_of
from dledger.core.state import Lease, PendingChange, PendingRead, State, Transfer
from dledger.core.types import NO_ENTRY, NO_INDEX, Index, NodeId, Reason, Role, Term

from . import build
from .net import Net

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")

#: One value for each field, as a busy node may have it.
BUSY: dict[Span, dict[str, Callable[[], Any]]] = {
    Span.LEADERSHIP: {
        "heartbeat_deadline": lambda: 99.0,
        "quorum_at": lambda: 98.0,
        "progress": lambda: {N1: Progress(Index(9), 1.0, 1.0, flushed=Index(8))},
        "noop_index": lambda: Index(3),
        "uncommitted": lambda: deque([(Index(9), 100)]),
        "uncommitted_bytes": lambda: 100,
        "proposed_bytes": lambda: 200,
        "transfer": lambda: Transfer(N1, 41, 9.0, told=True),
        "written": lambda: Index(7),
        "written_wanted": lambda: Index(8),
        "full_voters": lambda: (N1, N2),
        "slow_since": lambda: 5.0,
        "round_confirmed": lambda: 6,
        "reads": lambda: [PendingRead(42, None, Index(5), 6), PendingRead(43, N1, Index(5), 6)],
        "lease": lambda: Lease(given_up=True, sent_at={6: 5.0}),
        "change": lambda: PendingChange(44, N2, removes=True),
        "leaving": lambda: {NodeId("n9"): 9.0},
        "calm": lambda: (9, 0, 0),
        "calm_since": lambda: 4.0,
        "asked_quiet": lambda: 5,
    },
    Span.CANDIDACY: {
        "votes": lambda: {N0: True, N2: False},
        "candidacy_sequence": lambda: 17,
        "appointed": lambda: True,
    },
    Span.LEADER: {"asked_reads": lambda: {45: 99.0}, "quiet": lambda: True},
    Span.TERM: {"matched": lambda: Index(5)},
}


def of_span(span: Span) -> list[Any]:
    return [one for one in fields(State) if span_of(one) is span]


def make_busy(state: State, span: Span) -> None:
    for name, value in BUSY[span].items():
        setattr(state, name, value())


def left_over(state: State, span: Span) -> dict[str, Any]:
    """What is not as it is before one."""
    found = {one.name: (getattr(state, one.name), fresh(one)) for one in of_span(span)}
    return {name: value for name, (value, wanted) in found.items() if value != wanted}


def test_every_field_says_how_long_it_is_known() -> None:
    """Those without a value to begin with are given to a node, or follow from the others."""
    begun = [
        one
        for one in fields(State)
        if one.default is not MISSING or one.default_factory is not MISSING
    ]
    assert [one.name for one in begun if span_of(one) is None] == []
    assert [one.name for one in fields(State) if span_of(one) and one not in begun] == []


@pytest.mark.parametrize("span", BUSY)
def test_each_field_of_a_span_is_tried(span: Span) -> None:
    assert set(BUSY[span]) == {one.name for one in of_span(span)}
    state = build.state("n0")
    make_busy(state, span)  # values that no node has: the invariants do not hold for them
    build.made.clear()
    assert set(left_over(state, span)) == set(BUSY[span]), "a value as it is before says nothing"


# -- leaderships -------------------------------------------------------------------------------


def by_a_later_term(net: Net) -> list[fx.Effect]:
    newer = VoteReply(N1, Term(9), Term(1), granted=False, pre=False)
    return net.handle("n0", MessageReceived(newer))


def by_a_later_leader(net: Net) -> list[fx.Effect]:
    return net.handle("n0", MessageReceived(Heartbeat(N1, Term(9), NO_INDEX, 1)))


def by_check_quorum(net: Net) -> list[fx.Effect]:
    net.raft("n0").state.heartbeat_deadline = net.raft("n0").state.quorum_at = net.now
    net.now += 9.0
    return net.handle("n0", ev.TimerFired())


def by_a_disk_that_fails(net: Net) -> list[fx.Effect]:
    return net.handle("n0", ev.StorageFailed(Reason.DISK_ERROR, "EIO"))


ENDS = {
    "later-term": by_a_later_term,
    "later-leader": by_a_later_leader,
    "check-quorum": by_check_quorum,
    "failed-disk": by_a_disk_that_fails,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_leadership_that_ends_leaves_nothing(end: Callable[[Net], list[fx.Effect]]) -> None:
    net = Net()
    net.elect("n0")
    state = net.raft("n0").state
    make_busy(state, Span.LEADERSHIP)
    state.adopt()
    assert state.peers == (N1, N2, "n9")
    effects = end(net)
    assert left_over(state, Span.LEADERSHIP) == {}
    assert state.peers == (N1, N2)
    told = (fx.ReadRefused, fx.TransferDone, fx.MembershipDone)
    assert [effect for effect in effects if isinstance(effect, told)] == [
        fx.ReadRefused(42, Reason.NOT_LEADER, N0),
        fx.TransferDone(41, ok=True, reason=None),
        fx.MembershipDone(44, ok=False, reason=Reason.TERM_CHANGED),
    ]


def test_what_followers_told_an_earlier_leadership_commits_nothing() -> None:
    """S5: n1 had acknowledged what was cut from all logs; the next one counts it as not told."""
    net = Net(5)
    net.elect("n0")
    net.deliver()
    for name in ("n2", "n3", "n4"):
        net.isolate(name)
    net.propose("n0", 20)
    net.deliver()
    assert net.raft("n0").progress[N1].flushed == 20
    net.heal()
    net.isolate("n0")
    net.isolate("n1")
    net.wires.clear()
    net.elect("n2")
    net.heal()
    net.run(1.0)
    assert [net.raft(name).log.last.index for name in net.names] == [1] * 5
    net.elect("n0")
    raft = net.raft("n0")
    assert raft.commit == 2, "its first entry"
    net.drop = lambda source, target, message: isinstance(message, AppendEntries) and target != "n2"
    net.propose("n0", 5)
    net.deliver()
    assert (raft.progress[N2].flushed, raft.commit) == (7, 2), "two of five have it"
    net.drop = lambda source, target, message: False
    net.run(0.5)
    assert raft.commit == 7


def test_a_range_that_is_made_when_the_leadership_has_ended_brings_no_other() -> None:
    net = Net()
    net.elect("n0")
    net.propose("n0", 300)
    net.raft("n0").state.progress[N1].sending = True
    by_a_later_term(net)
    assert net.handle("n0", ev.AppendSent(N1, Index(50), 1000)) == []


# -- candidacies -------------------------------------------------------------------------------


def candidate(net: Net) -> State:
    """n0 has stood on its own and asks for real votes; nobody hears it."""
    net.isolate("n0")
    net.now += 2.0
    net.handle("n0", ev.TimerFired())
    net.handle("n0", MessageReceived(VoteReply(N1, Term(1), Term(1), granted=True, pre=True)))
    state = net.raft("n0").state
    assert state.role is Role.CANDIDATE
    return state


def by_being_elected(net: Net) -> None:
    net.handle("n0", MessageReceived(VoteReply(N1, Term(1), Term(1), granted=True, pre=False)))
    assert net.raft("n0").role is Role.LEADER


def by_following(net: Net) -> None:
    net.handle("n0", MessageReceived(Heartbeat(N1, Term(1), NO_INDEX, 1)))
    assert net.raft("n0").role is Role.FOLLOWER


def by_a_term(net: Net) -> None:
    by_a_later_term(net)


def by_failing(net: Net) -> None:
    by_a_disk_that_fails(net)


@pytest.mark.parametrize("end", [by_being_elected, by_following, by_a_term, by_failing])
def test_a_candidacy_that_ends_leaves_nothing(end: Callable[[Net], None]) -> None:
    net = Net()
    state = candidate(net)
    make_busy(state, Span.CANDIDACY)
    end(net)
    assert left_over(state, Span.CANDIDACY) == {}


def test_a_candidacy_begins_without_the_votes_of_the_one_before() -> None:
    net = Net()
    state = candidate(net)
    make_busy(state, Span.CANDIDACY)
    net.now += 2.0
    net.handle("n0", ev.TimerFired())
    assert state.role is Role.PRE_CANDIDATE
    assert left_over(state, Span.CANDIDACY) == {"votes": {N0: True}}


def test_an_appointment_counts_for_one_candidacy() -> None:
    """L1: nobody hears the appointed one, and it goes on by itself, as everybody does."""
    net = Net()
    net.elect("n1")
    raft = net.raft("n0")
    net.isolate("n0")
    term, last = Term(raft.term + 1), raft.log.last
    appointed = net.handle("n0", MessageReceived(TimeoutNow(N1, raft.term)))
    asked = [e.message for e in appointed if isinstance(e, fx.Send)]
    assert asked == [VoteRequest(N0, term, last, pre=False, transfer=True)] * 2
    net.now += 2.0
    sequence = raft.state.hard_sequence
    rehearsal = VoteRequest(N0, Term(term + 1), last, pre=True, transfer=False)
    assert net.handle("n0", ev.TimerFired()) == [
        fx.RoleChanged(Role.PRE_CANDIDATE, term, None),
        fx.Send(N1, rehearsal, sequence),
        fx.Send(N2, rehearsal, sequence),
    ]


# -- terms and leaders ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", [by_a_later_term, by_a_later_leader])
def test_a_term_that_ends_leaves_nothing(end: Callable[[Net], list[fx.Effect]]) -> None:
    net = Net()
    net.elect("n1")
    state = net.raft("n0").state
    make_busy(state, Span.TERM)
    end(net)
    assert left_over(state, Span.TERM) == {}


def test_a_candidate_has_matched_nobody_in_its_term() -> None:
    net = Net()
    state = net.raft("n0").state
    make_busy(state, Span.TERM)
    assert candidate(net) is state
    assert left_over(state, Span.TERM) == {}


def test_what_the_leader_was_asked_ends_with_it() -> None:
    net = Net()
    net.elect("n1")
    state = net.raft("n0").state
    make_busy(state, Span.LEADER)
    effects = by_a_later_leader(net)
    assert left_over(state, Span.LEADER) == {}
    assert fx.ReadRefused(45, Reason.NOT_LEADER, N1) in effects


def test_answers_of_the_leadership_before_are_not_counted_by_a_candidate() -> None:
    net = Net()
    net.elect("n0")
    term = net.raft("n0").term
    by_check_quorum(net)
    reply = AppendReply(N1, term, True, NO_INDEX, Index(0), Index(0), NO_ENTRY)
    assert net.handle("n0", MessageReceived(reply)) == []
