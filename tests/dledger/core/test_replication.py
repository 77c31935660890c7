"""Replication and commit: paper 5.3 and 5.4.2; requirements S1-S5, S7-S9, L3; rules R4, R18."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.log_view import LogView
from dledger.core.messages import AppendEntries, AppendReply, Heartbeat, HeartbeatReply
from dledger.core.progress import Mode
from dledger.core.replication import SafetyViolation
from dledger.core.types import (
    NO_ENTRY,
    NO_INDEX,
    EntryId,
    Index,
    NodeId,
    Reason,
    Role,
    Term,
    TermRun,
)

from .net import Net, runs_between

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def test_entries_commit_when_a_majority_has_them_on_disk() -> None:
    """D3, D4: written is not enough, neither on followers nor on the leader."""
    net = Net()
    leader = net.elect("n0")
    for node in net.nodes.values():
        node.auto_flush = False
    net.propose(leader, 3)
    net.deliver()
    assert net.raft(leader).commit == 0
    net.flush("n1")
    net.deliver()
    assert net.raft(leader).commit == 0, "one disk of three is no majority"
    net.flush("n0")
    assert net.raft(leader).commit == 3


def test_two_followers_can_commit_without_the_leaders_disk() -> None:
    net = Net()
    leader = net.elect("n0")
    net.nodes[N0].auto_flush = False
    net.propose(leader, 3)
    net.deliver()
    assert net.raft(leader).commit == 3
    assert net.raft(leader).status().flushed == 0


def test_old_entries_are_never_committed_by_counting() -> None:
    """S4, W2, paper figure 8: only an entry of the current term moves commit."""
    net = Net()
    net.elect("n0")
    net.isolate("n0")
    net.propose("n0", 50)
    net.wires.clear()
    net.nodes[N1].auto_flush = False
    # n0 comes back as leader of a later term with 50 entries of the old one.
    net.run(1.0)
    net.heal()
    net.run(0.2)
    raft = net.raft("n0")
    if raft.role is not Role.LEADER:
        net.elect("n0")
    assert raft.log.term_at(raft.commit) == raft.term or raft.commit <= 0


def test_figure_8_exactly() -> None:
    net = Net(5)
    net.elect("n0")
    for other in ("n2", "n3", "n4"):
        net.isolate(other)
    net.propose("n0", 1)  # index 1 of term 1 on n0 and n1 only
    net.deliver()
    assert net.raft("n0").commit == 0
    net.heal()
    state = net.raft("n0").state
    state.term, state.voted_for = Term(3), N0  # as if re-elected in term 3 after others stood
    state.log.append(Term(3), Index(2))
    for name in (N1, N2):
        net.handle(
            "n0",
            ev.MessageReceived(
                AppendReply(
                    name, Term(3), True, Index(0), Index(1), Index(1), EntryId(Term(-1), Index(-1))
                )
            ),
        )
    assert net.raft("n0").commit == 0, "an entry of term 1 was committed by counting in term 3"
    net.flush("n0", 2)
    for name in (N1, N2):
        net.handle(
            "n0",
            ev.MessageReceived(
                AppendReply(
                    name, Term(3), True, Index(0), Index(2), Index(2), EntryId(Term(-1), Index(-1))
                )
            ),
        )
    assert net.raft("n0").commit == 2


def test_acknowledgements_of_another_term_are_ignored() -> None:
    """S7 (Y4): a late ack of an earlier leadership counts for nothing."""
    net = Net()
    net.elect("n0")
    net.isolate("n0")
    net.propose("n0", 5)
    late = AppendReply(
        N1, Term(0), True, Index(0), Index(5), Index(5), EntryId(Term(-1), Index(-1))
    )
    net.handle("n0", ev.MessageReceived(late))
    assert net.raft("n0").commit == 0


def append(
    sender: NodeId, term: int, prev: tuple[int, int], runs: list[tuple[int, int]], commit=-1
):
    last = runs[-1][1] if runs else prev[1]
    return AppendEntries(
        sender,
        Term(term),
        EntryId(Term(prev[0]), Index(prev[1])),
        Index(last),
        Index(commit),
        tuple(TermRun(Term(t), Index(i)) for t, i in runs),
    )


def test_a_range_that_ends_earlier_drops_nothing() -> None:
    """S2 (Y5): only a proven conflict shrinks a log."""
    net = Net()
    net.handle("n1", ev.MessageReceived(append(N0, 1, (-1, -1), [(1, 9)])))
    net.handle("n1", ev.MessageReceived(append(N0, 1, (-1, -1), [(1, 3)])))
    net.handle("n1", ev.MessageReceived(append(N0, 1, (1, 4), [])))
    assert net.raft("n1").log.last.index == 9
    assert net.truncations == []


def test_a_conflict_drops_the_suffix_and_only_that() -> None:
    net = Net()
    net.handle("n1", ev.MessageReceived(append(N0, 1, (-1, -1), [(1, 9)])))
    net.handle("n1", ev.MessageReceived(append(N2, 2, (1, 4), [(2, 6)])))
    assert net.truncations == [(N1, 4)]
    assert net.raft("n1").log.last == EntryId(Term(2), Index(6))


def test_dropping_committed_entries_halts() -> None:
    """S3: a fatal assertion, never executed."""
    net = Net()
    net.handle("n1", ev.MessageReceived(append(N0, 1, (-1, -1), [(1, 9)], commit=7)))
    with pytest.raises(SafetyViolation, match="committed"):
        net.raft("n1").handle(ev.MessageReceived(append(N2, 2, (1, 4), [(2, 6)])), 0.0)


def test_two_leaders_of_one_term_halt() -> None:
    net = Net()
    net.handle("n1", ev.MessageReceived(append(N0, 1, (-1, -1), [(1, 1)])))
    with pytest.raises(SafetyViolation, match="both lead"):
        net.raft("n1").handle(ev.MessageReceived(append(N2, 1, (-1, -1), [(1, 1)])), 0.0)


def test_stale_leaders_are_refused_when_executed() -> None:
    """S1 (W11)."""
    net = Net()
    net.handle("n1", ev.MessageReceived(append(N2, 5, (-1, -1), [(5, 3)])))
    net.wires.clear()
    net.handle("n1", ev.MessageReceived(append(N0, 4, (-1, -1), [(4, 9)], commit=9)))
    assert net.raft("n1").log.last == EntryId(Term(5), Index(3))
    assert net.raft("n1").commit == -1
    reply = net.wires[-1][2]
    assert isinstance(reply, AppendReply)
    assert not reply.success
    assert reply.term == 5


@pytest.mark.parametrize("kind", ["heartbeat", "append"])
def test_commit_never_runs_ahead_of_what_matched_this_leader(kind: str) -> None:
    """R4: heartbeats overtake appends; a stale suffix is not committed by a number."""
    net = Net()
    net.handle("n1", ev.MessageReceived(append(N0, 1, (-1, -1), [(1, 99)])))
    if kind == "heartbeat":
        net.handle("n1", ev.MessageReceived(Heartbeat(N2, Term(2), Index(99), 1)))
        assert net.raft("n1").commit == -1
    else:
        net.handle("n1", ev.MessageReceived(append(N2, 2, (1, 79), [], commit=99)))
        assert net.raft("n1").commit == 79


def test_a_new_leadership_starts_with_fresh_views() -> None:
    """S5 (W1, W3): rolling leaderships truncate nothing on healthy followers."""
    net = Net()
    for turn in range(9):
        leader = net.elect(f"n{turn % 3}")
        net.propose(leader, 20)
        net.deliver()
        net.run(0.3)
    assert net.truncations == []
    assert {node.raft.log.last.index for node in net.nodes.values()} == {9 * 21 - 1}
    net.check_logs()


def test_a_far_behind_follower_catches_up_in_few_rounds() -> None:
    """Fast back-off: whole terms are skipped."""
    net = Net()
    for turn in range(6):
        net.isolate("n2")
        leader = net.elect(f"n{turn % 2}")
        net.propose(leader, 50)
        net.deliver()
        net.run(0.2)
    net.heal()
    sent: list[AppendEntries] = []
    net.drop = lambda _s, t, m: bool(t == N2 and isinstance(m, AppendEntries) and sent.append(m))
    net.run(1.0)
    assert net.raft("n2").log.last == net.raft(net.leader()).log.last
    assert len(sent) < 16
    net.check_logs()


def test_any_single_lost_message_is_made_up_for_without_new_traffic() -> None:
    """L3 (W18, W19): drop the k-th message of a catch-up on an idle group."""
    for lost in range(12):
        net = Net(seed=lost)
        leader = net.elect("n0")
        count = 0

        def drop(_s: NodeId, _t: NodeId, m: object, lost: int = lost) -> bool:
            nonlocal count
            count += 1
            return count == lost

        net.drop = drop
        net.propose(leader, 5)
        net.deliver()
        net.run(1.2)
        assert [n.raft.log.last.index for n in net.nodes.values()] == [5, 5, 5]
        assert [n.raft.commit for n in net.nodes.values()] == [5, 5, 5]
        assert net.leader() == leader


def test_a_broken_connection_is_followed_by_a_probe() -> None:
    net = Net()
    leader = net.elect("n0")
    net.isolate("n1")
    net.propose(leader, 5)
    net.deliver()
    net.heal()
    net.handle(leader, ev.PeerDisconnected(N1))
    net.run(0.3)
    assert net.raft("n1").log.last.index == 5


def test_an_answer_to_entries_proves_as_much_as_one_to_a_heartbeat() -> None:
    """Heartbeats have a connection of their own: a leader that has lost only those leads on."""
    net = Net()
    leader = net.elect("n0")
    net.drop = lambda _source, _to, message: isinstance(message, HeartbeatReply)
    term = net.raft(leader).term
    for _ in range(20):
        net.propose(leader)
        net.run(0.1)
    assert net.raft(leader).role is Role.LEADER
    assert net.raft(leader).term == term
    assert net.raft(leader).commit == net.raft(leader).log.last.index


def test_a_follower_that_lost_its_unsynced_tail_is_served_again() -> None:
    net = Net()
    leader = net.elect("n0")
    net.nodes[N1].auto_flush = False
    net.propose(leader, 5)
    net.deliver()
    net.restart(N1, keep=Index(0))
    net.run(1.5)
    assert net.raft("n1").log.last.index >= 5
    net.check_logs()


@pytest.mark.parametrize("noticed", [True, False])
def test_a_follower_that_began_anew_learns_the_commit_without_new_traffic(noticed: bool) -> None:
    """L3, R4: the leader counts it as matched, and nothing is outstanding: heartbeats must tell.

    Either the leader has not noticed the restart, or an answer of the former process came late.
    """
    net = Net()
    leader = net.elect("n0")
    net.propose(leader, 3)
    net.deliver()
    last = net.raft(leader).log.last.index
    term = net.raft(leader).term
    net.restart(N1)
    if noticed:
        net.handle("n0", ev.PeerDisconnected(N1))
        late = AppendReply(N1, term, True, NO_INDEX, last, last, NO_ENTRY)
        net.handle("n0", ev.MessageReceived(late))
    assert net.raft(leader).progress[N1].mode is Mode.REPLICATE
    net.run(0.5)
    assert net.raft("n1").commit == last
    assert net.leader() == leader, "without an election"


def test_an_older_answer_to_a_heartbeat_stops_no_pipeline() -> None:
    """L2: heartbeats have a connection of their own, so newer answers to entries overtake them."""
    net = Net()
    leader = net.elect("n0")
    net.propose(leader, 3)
    net.deliver()
    term, round_ = net.raft(leader).term, net.raft(leader).state.round
    net.propose(leader)
    older = HeartbeatReply(N1, term, round_, Index(1), Index(1), 0.0, False)
    net.handle("n0", ev.MessageReceived(older))
    assert net.raft(leader).progress[N1].mode is Mode.REPLICATE


def test_proposals_are_refused_with_the_reason() -> None:
    net = Net()
    effects = net.propose("n0")
    assert effects == [fx.ProposalRejected("p1", Reason.NOT_LEADER, None)]
    leader = net.elect("n0")
    assert net.propose("n1")[0] == fx.ProposalRejected("p1", Reason.NOT_LEADER, NodeId(leader))


def test_back_pressure_is_bounded_in_bytes() -> None:
    net = Net(uncommitted_bytes_max=1000)
    leader = net.elect("n0")
    net.isolate(leader)
    assert isinstance(net.propose(leader, 1, 900)[0], fx.AppendLocal)
    assert net.propose(leader, 1, 900)[0].reason is Reason.LEADER_PENDING_FULL


def test_a_leader_takes_nothing_before_its_noop_is_committed() -> None:
    """R9: state of earlier terms is complete when the first proposal is judged."""
    net = Net()
    for node in net.nodes.values():
        node.auto_flush = False
    net.elect("n0")
    assert net.propose("n0")[0].reason is Reason.LEADER_NOT_READY
    net.flush("n0")
    net.flush("n1")
    net.deliver()
    assert isinstance(net.propose("n0")[0], fx.AppendLocal)


def test_windows_bound_what_is_in_flight() -> None:
    net = Net(window_frames_max=4, frame_bytes_max=1000, window_bytes_max=4000)
    leader = net.elect("n0")
    net.nodes[N0].frame_entries_max = 5
    net.drop = lambda *_: True
    for _ in range(50):
        net.propose(leader, 10)
        net.wires.clear()
    for peer in net.raft(leader).status().peers:
        assert peer.in_flight_bytes <= 4 * 500
    net.drop = lambda *_: False
    net.run(2.5)
    assert [n.raft.commit for n in net.nodes.values()] == [500] * 3


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_order_or_repetition_of_valid_appends_shrinks_a_log(data: st.DataObject) -> None:
    """S2 as a property: late, repeated and reordered ranges of one leader are no-ops."""
    net = Net()
    leader_log = LogView([], NO_ENTRY)
    last = -1
    for term in range(1, data.draw(st.integers(1, 4)) + 1):
        last += data.draw(st.integers(1, 5))
        leader_log.append(Term(term), Index(last))
    messages = []
    for _ in range(data.draw(st.integers(1, 12))):
        prev = data.draw(st.integers(-1, last))
        end = data.draw(st.integers(prev, last))
        prev_term = leader_log.term_at(prev)
        runs = runs_between(leader_log, prev + 1, end)
        messages.append(append(N0, 9, (prev_term, prev), list(runs)))
    seen = -1
    for message in messages:
        net.handle("n1", ev.MessageReceived(message))
        assert net.raft("n1").log.last.index >= seen
        seen = net.raft("n1").log.last.index
    assert net.truncations == []
