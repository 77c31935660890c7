"""Changes of the group: dissertation chapter 4, safety rules R6 and R20, requirement S11."""

from __future__ import annotations

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import (
    Change,
    ChangeKind,
    Configuration,
    Member,
    Standing,
    changed,
)
from dledger.core.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import (
    NO_ENTRY,
    NO_INDEX,
    EntryId,
    HardState,
    Index,
    NodeId,
    Reason,
    Role,
    Term,
)

from .net import Net

N0, N1, N2, N3 = NodeId("n0"), NodeId("n1"), NodeId("n2"), NodeId("n3")


def standings(net: Net, name: str) -> dict[str, str]:
    return {m.node_id: m.standing.value for m in net.configuration(name).members}


def refusal(net: Net, name: str) -> Reason | None:
    """Why the newest change asked for at `name` was refused."""
    done = net.membership_done(name)
    assert done is not None
    return done.reason


def ready(count: int = 3, entries: int = 5) -> Net:
    """A group led by n0 with some committed entries."""
    net = Net(count)
    net.elect("n0")
    if entries:
        net.propose("n0", entries)
    net.run(0.5)
    return net


def test_a_node_joins_catches_up_and_is_made_a_voter() -> None:
    net = ready()
    net.join("n3")
    net.change("n0", ChangeKind.ADD, "n3", incarnation=7)
    assert standings(net, "n0")["n3"] == "joining"
    net.run(2.0)
    assert net.membership_done("n0") == fx.MembershipDone(1, ok=True, reason=None)
    assert standings(net, "n3") == dict.fromkeys(("n0", "n1", "n2", "n3"), "voter")
    assert net.configuration("n3").member(N3)[2] == 7  # type: ignore[index]
    assert net.raft("n3").commit == net.raft("n0").commit
    net.check_logs()


def test_a_learner_stays_one_until_it_is_asked_to_join() -> None:
    net = ready()
    net.join("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3")
    net.run(3.0)
    assert standings(net, "n3")["n3"] == "learner"
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(2.0)
    assert standings(net, "n3")["n3"] == "voter"


def test_learners_and_those_who_join_are_not_counted() -> None:
    """Two of three voters are cut off: an entry on the leader and a learner is not committed."""
    net = ready()
    net.join("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3")
    net.run(1.0)
    net.isolate("n1")
    net.isolate("n2")
    before = net.raft("n0").commit
    net.propose("n0")
    net.deliver()
    assert net.raft("n3").log.last.index == before + 1
    assert net.raft("n0").commit == before


def test_one_who_is_behind_is_not_promoted() -> None:
    net = ready()
    net.join("n3")
    net.drop = lambda source, target, message: target == N3
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(3.0)
    assert standings(net, "n0")["n3"] == "joining"
    net.change("n0", ChangeKind.PROMOTE, "n3")
    assert refusal(net, "n0") is Reason.FALL_BEHIND_TOO_MUCH
    net.drop = lambda *_: False
    net.run(2.0)
    assert standings(net, "n0")["n3"] == "voter"


def test_one_change_at_a_time() -> None:
    """Dissertation 4.1: two at once could make majorities that do not meet."""
    net = ready()
    net.isolate("n1")
    net.isolate("n2")
    net.change("n0", ChangeKind.ADD, "n3")
    net.change("n0", ChangeKind.ADD, "n4")
    assert refusal(net, "n0") is Reason.CHANGE_IN_PROGRESS
    assert "n4" not in standings(net, "n0")


def test_no_change_before_an_entry_of_the_leaders_term_is_committed() -> None:
    """The erratum of the dissertation's single-server changes."""
    net = ready()
    net.cut = {(a, b) for a in net.names for b in net.names if a != b}
    net.isolate("n0")
    net.cut = {c for c in net.cut if N0 in c}
    net.drop = lambda source, target, message: isinstance(message, AppendReply)
    net.elect("n1")
    net.change("n1", ChangeKind.ADD, "n3")
    assert refusal(net, "n1") is Reason.LEADER_NOT_READY
    assert "n3" not in standings(net, "n1")


def test_only_the_leader_changes_the_group() -> None:
    net = ready()
    net.change("n1", ChangeKind.ADD, "n3")
    assert refusal(net, "n1") is Reason.NOT_LEADER


def test_a_change_counts_when_it_is_appended() -> None:
    """R20: of four voters three must have the entry that makes them four, not two."""
    net = ready()
    net.join("n3")
    promotions: list[int] = []

    def drop(source: NodeId, target: NodeId, message: object) -> bool:
        four = len(net.raft("n0").state.voters) == 4
        if four and not promotions:
            promotions.append(net.raft("n0").configuration_index)
        return four and source in (N1, N3)

    net.drop = drop
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(0.6)
    assert promotions
    assert net.raft("n0").commit < promotions[0], "two of four are no majority"
    net.drop = lambda *_: False
    net.run(1.0)
    assert net.raft("n0").commit >= promotions[0]


def test_a_truncated_change_never_was() -> None:
    net = ready()
    net.isolate("n0")
    net.change("n0", ChangeKind.ADD, "n3")
    assert "n3" in standings(net, "n0")
    net.elect("n1")
    net.propose("n1", 3)
    net.heal()
    net.run(1.0)
    assert "n3" not in standings(net, "n0")
    assert net.raft("n0").configuration_index == NO_INDEX
    net.check_logs()


def test_a_restart_finds_the_group_in_the_log() -> None:
    net = ready()
    net.change("n0", ChangeKind.REMOVE, "n2")
    net.run(0.5)
    net.restart(N1)
    assert set(standings(net, "n1")) == {"n0", "n1"}


def test_a_removed_follower_is_told_and_goes_quiet() -> None:
    net = ready()
    net.change("n0", ChangeKind.REMOVE, "n2")
    net.run(1.0)
    assert net.membership_done("n0") == fx.MembershipDone(1, ok=True, reason=None)
    assert "n2" not in standings(net, "n2"), "it does not know"
    assert net.raft("n2").commit >= net.raft("n2").configuration_index
    net.wires.clear()
    net.nodes[N2].effects.clear()
    net.run(5.0)
    asked = [e for e in net.nodes[N2].effects if isinstance(e, fx.Send)]
    assert not asked, "a removed node still speaks"
    assert net.leader() == "n0"
    assert N2 not in net.raft("n0").progress


def test_a_removed_node_that_does_not_know_disturbs_nobody() -> None:
    net = ready()
    net.isolate("n2")
    net.change("n0", ChangeKind.REMOVE, "n2")
    net.run(10.0)
    term = net.raft("n0").term
    net.heal()
    net.run(5.0)
    assert (net.leader(), net.raft("n0").term) == ("n0", term)
    last = EntryId(Term(99), Index(99))
    net.handle("n0", ev.MessageReceived(VoteRequest(N2, Term(99), last, False, transfer=True)))
    assert not net.wires.pop()[2].granted  # type: ignore[union-attr]
    for asked in (
        Heartbeat(N2, Term(99), Index(0), 1),
        HeartbeatReply(N2, Term(99), 1, Index(0), Index(0)),
        AppendReply(N2, Term(99), True, NO_INDEX, Index(0), Index(0), NO_ENTRY),
        VoteReply(N2, Term(99), Term(99), granted=False, pre=False),
    ):
        assert net.handle("n0", ev.MessageReceived(asked)) == [], asked
    assert net.raft("n0").term == term


def test_a_removed_node_is_not_counted() -> None:
    net = ready()
    net.change("n0", ChangeKind.REMOVE, "n2")
    net.run(0.5)
    net.isolate("n1")
    last = net.raft("n0").log.last.index
    net.propose("n0")
    net.deliver()
    late = Index(last + 1)
    term = net.raft("n0").term
    net.handle(
        "n0", ev.MessageReceived(AppendReply(N2, term, True, NO_INDEX, late, late, NO_ENTRY))
    )
    assert net.raft("n0").commit == last


def test_the_leader_removes_itself_and_another_leads_soon() -> None:
    """Dissertation 4.2.2: it is not counted, and steps down when the entry is committed."""
    net = ready()
    began = net.now
    net.change("n0", ChangeKind.REMOVE, "n0")
    assert net.raft("n0").role is Role.LEADER, "it leads until the entry is committed"
    net.run(0.3)
    assert net.leader() in ("n1", "n2")
    assert net.raft("n0").role is not Role.LEADER
    assert net.now - began <= 0.31
    net.run(3.0)
    assert net.raft(net.leader()).term == net.raft("n0").term, "it disturbs"


def test_a_leader_that_is_removed_does_not_count_itself() -> None:
    """Of {n1, n2} one has the entry: with the leader's own copy it would be two."""
    net = ready()
    net.isolate("n2")
    net.change("n0", ChangeKind.REMOVE, "n0")
    index = net.raft("n0").configuration_index
    net.deliver()
    assert net.raft("n1").log.last.index == index
    assert net.raft("n0").commit < index
    net.heal()
    net.run(1.0)
    assert net.leader() in ("n1", "n2")


def test_the_last_voter_stays() -> None:
    net = ready(1)
    net.change("n0", ChangeKind.REMOVE, "n0")
    assert refusal(net, "n0") is Reason.LAST_VOTER


def test_a_removal_that_would_leave_no_majority_alive_is_refused() -> None:
    net = ready()
    net.isolate("n1")
    net.run(0.7)
    net.change("n0", ChangeKind.REMOVE, "n2")
    assert refusal(net, "n0") is Reason.QUORUM_LOST
    net.change("n0", ChangeKind.REMOVE, "n1")
    net.run(0.3)
    assert set(standings(net, "n0")) == {"n0", "n2"}


def test_a_wiped_node_neither_votes_nor_counts_until_it_has_the_log_again() -> None:
    """R6: n1 lags, n2 loses its disk; an entry that n2 held for the majority must survive."""
    net = ready()
    net.isolate("n1")
    net.propose("n0", 4)
    net.deliver()
    held = net.raft("n0").commit
    net.wipe("n2")
    net.heal()
    net.isolate("n0")
    net.run(5.0)
    assert all(net.raft(name).role is not Role.LEADER for name in ("n1", "n2")), "it voted"
    net.heal()
    net.run(3.0)
    leader = net.leader()
    assert leader == "n0"
    net.change(leader, ChangeKind.READMIT, "n2", incarnation=2)
    assert standings(net, leader)["n2"] == "returning"
    assert len(net.raft(leader).state.quorum) == 3, "the quorum became smaller"
    net.run(3.0)
    assert standings(net, leader)["n2"] == "voter"
    assert net.raft("n2").commit >= held
    net.check_logs()


def test_a_node_that_forgot_neither_votes_nor_stands_until_it_is_named() -> None:
    """R6, D2: n1 lags, n2 loses its vote file; what n0 and n2 had decided must survive."""
    net = ready()
    net.isolate("n1")
    net.propose("n0", 4)
    net.deliver()
    held, log = net.raft("n0").commit, net.raft("n2").log.last
    net.forget("n2", 2)
    assert net.raft("n2").log.last == log, "it keeps its log"
    net.heal()
    net.isolate("n0")
    net.run(5.0)
    assert all(net.raft(name).role is Role.FOLLOWER for name in ("n2",)), "it stood"
    assert net.raft("n1").role is not Role.LEADER, "it voted"
    net.heal()
    net.run(3.0)
    leader = net.leader()
    assert leader == "n0"
    net.change(leader, ChangeKind.READMIT, "n2", incarnation=2)
    assert standings(net, leader)["n2"] == "returning"
    net.run(3.0)
    assert standings(net, leader)["n2"] == "voter"
    assert net.raft("n2").commit >= held
    net.isolate("n0")
    net.run(5.0)
    assert net.raft(net.leader()).role is Role.LEADER, "the two that are left elect"
    net.check_logs()


def test_what_a_node_that_forgot_acknowledges_is_not_counted() -> None:
    """R2: its flush mark is lost; a leader that has not met it before counts nothing of it."""
    net = ready()
    net.forget("n2", 2)
    net.isolate("n1")
    before = net.raft("n0").commit
    net.propose("n0", 2)
    net.deliver()
    assert net.raft("n2").log.last == net.raft("n0").log.last
    assert net.raft("n0").progress[N2].flushed < net.raft("n0").log.last.index
    assert net.raft("n0").commit == before


def test_a_node_that_forgot_confirms_no_leader() -> None:
    """S9: it may have voted for a later one."""
    net = ready()
    net.forget("n2", 2)
    net.isolate("n1")
    net.handle("n0", ev.ReadRequested(7))
    net.run(0.1)
    assert not [e for e in net.nodes[NodeId("n0")].effects if isinstance(e, fx.ReadReady)]


def test_a_returning_voter_is_not_counted_although_it_acknowledges() -> None:
    net = ready()
    net.wipe("n2")
    net.isolate("n1")
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=2)
    net.now += 0.01  # who catches up is sent so much a second
    net.propose("n0")
    net.deliver()
    assert net.raft("n0").progress[N2].flushed == net.raft("n0").log.last.index
    assert net.raft("n0").commit < net.raft("n0").configuration_index


def test_the_vote_of_a_returning_voter_is_not_counted() -> None:
    net = ready()
    net.wipe("n2")
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=2)
    net.drop = lambda source, target, message: target == N2
    net.deliver()  # n1 has the entry, n2 has nothing
    net.drop = lambda *_: False
    net.isolate("n0")
    net.now += 1.0
    net.handle("n1", ev.TimerFired())
    for pre in (True, False):
        term = net.raft("n1").term
        asked = Term(term + 1) if pre else term
        vote = VoteReply(N2, asked, asked, granted=True, pre=pre)
        net.handle("n1", ev.MessageReceived(vote))
    assert net.raft("n1").role is Role.PRE_CANDIDATE


def test_a_node_that_knows_no_group_does_not_vote() -> None:
    net = ready()
    net.wipe("n2")
    last = EntryId(Term(9), Index(9))
    for pre in (True, False):
        asked = VoteRequest(N1, Term(9), last, pre=pre)
        assert net.handle("n2", ev.MessageReceived(asked)) == []
    assert net.raft("n2").term == 0


def test_a_learner_does_not_stand_in_for_a_voter() -> None:
    """A learner in the quorum would make two of three needed, and one more may be away."""
    net = ready(2)
    net.join("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3")
    net.run(1.0)
    net.isolate("n1")
    before = net.raft("n0").commit
    net.propose("n0")
    net.deliver()
    assert net.raft("n3").log.last.index > before
    assert net.raft("n0").commit == before, "a learner stood in for a voter"


def test_leadership_is_handed_to_voters_only() -> None:
    net = ready()
    net.join("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3")
    net.run(0.5)
    net.handle("n0", ev.TransferRequested(N3, 9))
    done = [e for e in net.nodes[N0].effects if isinstance(e, fx.TransferDone)]
    assert done[-1].reason is Reason.UNKNOWN_MEMBER


def test_no_change_while_leadership_is_handed_over() -> None:
    net = ready()
    net.handle("n0", ev.TransferRequested(N1, 9))
    net.change("n0", ChangeKind.ADD, "n3")
    assert refusal(net, "n0") is Reason.LEADER_TRANSFERRING


def test_who_asked_hears_that_the_outcome_is_unknown_when_the_leadership_ends() -> None:
    net = ready()
    net.isolate("n0")
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(3.0)
    assert refusal(net, "n0") is Reason.TERM_CHANGED


def test_a_node_whom_an_uncommitted_entry_removes_may_still_be_needed() -> None:
    """Dissertation 4.2.2: of {n0, n1} n0 removed itself, and n1 has not heard of it."""
    net = ready(2)
    net.drop = lambda source, target, message: True
    net.change("n0", ChangeKind.REMOVE, "n0")
    net.run(3.0)
    assert net.raft("n0").role is not Role.LEADER
    net.drop = lambda *_: False
    net.run(5.0)
    assert net.raft("n1").role is Role.LEADER
    assert set(standings(net, "n1")) == {"n1"}


def test_a_node_votes_whom_an_uncommitted_entry_removes_and_not_when_it_is_committed() -> None:
    """Dissertation 4.2.2: whoever has not got the entry counts that vote, and may need it."""
    net = ready()
    net.drop = lambda source, target, message: True
    net.change("n0", ChangeKind.REMOVE, "n0")
    net.run(2.0)
    raft = net.raft("n0")
    entry, sequence = raft.configuration_index, raft.state.hard_sequence
    assert raft.configuration.member(N0) is None
    assert (raft.role, raft.leader, raft.commit) == (Role.PRE_CANDIDATE, None, entry - 1)
    term = Term(raft.term + 2)
    request = VoteRequest(N1, term, EntryId(Term(term - 1), entry), pre=False)
    assert net.handle("n0", ev.MessageReceived(request)) == [
        fx.PersistHardState(sequence + 1, HardState(term, None, 1)),
        fx.RoleChanged(Role.FOLLOWER, term, None),
        fx.PersistHardState(sequence + 2, HardState(term, N1, 1)),
        fx.Send(N1, VoteReply(N0, term, term, granted=True, pre=False), sequence + 2),
    ]
    net.handle("n0", ev.MessageReceived(AppendEntries(N1, term, raft.log.last, entry, entry)))
    assert raft.commit == entry
    net.now += 1.0
    again = VoteRequest(N2, Term(term + 1), EntryId(term, entry), pre=False)
    assert net.handle("n0", ev.MessageReceived(again)) == []


def test_a_voter_that_does_not_know_a_new_one_still_elects_it() -> None:
    """n3 has the longest log, n2 has not heard of it, n0 died: three of four are needed."""
    net = ready()
    net.join("n3")
    net.isolate("n2")
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(2.0)
    assert standings(net, "n0")["n3"] == "voter"
    assert "n3" not in standings(net, "n2")
    net.drop = lambda source, target, message: target == N1 or (source == N0 and target == N2)
    net.propose("n0", 2)
    net.deliver()
    assert net.raft("n3").log.last > net.raft("n1").log.last
    net.drop = lambda *_: False
    net.heal()
    net.isolate("n0")
    net.run(5.0)
    assert net.raft("n3").role is Role.LEADER
    assert net.raft("n2").commit == net.raft("n3").commit


def test_a_readmitted_node_begins_from_nothing_in_the_leaders_eyes() -> None:
    net = ready()
    net.wipe("n2")
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=2)
    assert net.raft("n0").progress[N2].matched == NO_INDEX
    assert net.configuration("n0").member(N2).standing is Standing.RETURNING  # type: ignore[union-attr]


@pytest.mark.parametrize(("told", "kept"), [("", "old:1"), ("new:2", "new:2")])
def test_a_readmitted_node_keeps_its_address_until_another_is_told(told: str, kept: str) -> None:
    member = Member(N2, Standing.LEARNER, 1, "old:1")
    voter = Member(N0, Standing.VOTER, 1, "leader:1")
    group = changed(Configuration((voter, member)), Change(ChangeKind.READMIT, N2, 2, told))
    assert isinstance(group, Configuration)
    assert group.members == (voter, Member(N2, Standing.LEARNER, 2, kept))


def test_a_change_pins_the_incarnations_that_the_leader_has_met() -> None:
    """Who comes in has met nobody: it must not take a life that lost its disk for the first."""
    net = ready()
    net.join("n3")
    net.incarnations = {N0: 1, N1: 2, N2: 3}
    net.change("n0", ChangeKind.ADD, "n3", incarnation=7)
    net.run(2.0)
    for name in net.names:
        incarnations = {m.node_id: m.incarnation for m in net.configuration(name).members}
        assert incarnations == {N0: 1, N1: 2, N2: 3, N3: 7}
    net.incarnations = {N0: 4, N1: 4, N2: 4}
    net.change("n0", ChangeKind.REMOVE, "n3")
    net.run(1.0)
    assert [m.incarnation for m in net.configuration("n0").members] == [1, 2, 3], "pinned for good"


@pytest.mark.parametrize(
    ("kind", "node", "refused"),
    [
        (ChangeKind.ADD, "n3", True),
        (ChangeKind.ADD_LEARNER, "n3", True),
        (ChangeKind.READMIT, "n1", True),
        (ChangeKind.READMIT, "n2", False),
        (ChangeKind.REMOVE, "n2", False),
    ],
)
def test_no_node_joins_while_the_leader_has_not_met_a_member(
    kind: ChangeKind, node: str, refused: bool
) -> None:
    """n2 was never met: it may go, or come back, and nobody else may come in."""
    net = ready()
    net.incarnations = {N0: 1, N1: 2}
    net.change("n0", kind, node, incarnation=9)
    net.run(0.3)
    done = net.membership_done("n0")
    assert (done is not None and done.reason is Reason.UNMET_MEMBER) is refused
    assert (net.raft("n0").configuration_index < 0) is refused


def test_a_new_leader_finds_whom_a_change_removed_although_others_were_pinned() -> None:
    """It tells the one who is gone, as the leader before it would have."""
    net = ready(5)
    net.incarnations = {NodeId(f"n{i}"): i + 1 for i in range(5)}
    net.cut |= {(N0, NodeId(f"n{i}")) for i in (2, 3, 4)}
    net.change("n0", ChangeKind.REMOVE, "n4")
    net.deliver()
    assert "n4" not in standings(net, "n1")
    assert net.membership_done("n0") is None, "two of four have it"
    net.cut.clear()
    net.isolate("n0")
    net.elect("n1")
    net.run(1.0)
    assert "n4" not in standings(net, "n4"), "it was told"
