"""Dissertation chapter 4, "Cluster membership changes", one rule after the other."""

from __future__ import annotations

import itertools

import pytest

from dledger.core import events as ev
from dledger.core.configuration import Change, ChangeKind, Configuration, changed, of_voters
from dledger.core.messages import VoteRequest
from dledger.core.quorum import has_majority
from dledger.core.types import NO_INDEX, NodeId, Reason, Role
from tests.dledger.core.net import Net

N0, N1, N2, N3 = (NodeId(f"n{number}") for number in range(4))


def group(count: int, entries: int = 5) -> Net:
    """Led by n0, with some committed entries."""
    net = Net(count)
    net.elect("n0")
    net.propose("n0", entries)
    net.run(0.5)
    return net


def voters(net: Net, node: str) -> set[str]:
    return set(net.configuration(node).voters)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("kind", [ChangeKind.PROMOTE, ChangeKind.REMOVE])
def test_4_1_majorities_before_and_after_one_step_overlap(count: int, kind: ChangeKind) -> None:
    # Given a group of any size, one of its members perhaps about to become a voter,
    names = tuple(NodeId(f"n{number}") for number in range(count))
    before = of_voters(names)
    if kind is ChangeKind.PROMOTE:
        joining = changed(before, Change(ChangeKind.ADD, NodeId("new"), 1))
        assert isinstance(joining, Configuration)
        before = joining
    # when one voter is added, or one is removed,
    target = NodeId("new") if kind is ChangeKind.PROMOTE else names[-1]
    after = changed(before, Change(kind, target))
    if count == 1 and kind is ChangeKind.REMOVE:
        assert after is Reason.LAST_VOTER
        return
    assert isinstance(after, Configuration)
    # then no two majorities, of before and of after, are without a common node.
    everybody = sorted({*before.quorum, *after.quorum})
    for size in range(1, len(everybody)):
        for chosen in itertools.combinations(everybody, size):
            others = set(everybody) - set(chosen)
            assert not (has_majority(chosen, before.quorum) and has_majority(others, after.quorum))


def test_4_1_a_configuration_is_used_as_soon_as_it_is_in_the_log() -> None:
    # Given a leader that nobody hears,
    net = group(3)
    net.isolate("n0")
    # when it appends a change,
    net.change("n0", ChangeKind.REMOVE, "n2")
    # then it uses it at once, before it is committed.
    assert net.raft("n0").commit < net.raft("n0").configuration_index
    assert voters(net, "n0") == {"n0", "n1"}


def test_4_1_a_server_falls_back_when_the_entry_is_removed() -> None:
    # Given a server with a change in its log that nobody else has,
    net = group(3)
    net.isolate("n0")
    net.change("n0", ChangeKind.REMOVE, "n2")
    # when another leader overwrites it,
    net.elect("n1")
    net.heal()
    net.run(1.0)
    # then the server uses the configuration before it again.
    assert voters(net, "n0") == {"n0", "n1", "n2"}
    assert net.raft("n0").configuration_index == NO_INDEX


def test_4_1_the_next_change_waits_until_this_one_is_committed() -> None:
    # Given a change that is not committed,
    net = group(3)
    net.isolate("n0")
    net.change("n0", ChangeKind.ADD, "n3")
    # when another one is asked for,
    net.change("n0", ChangeKind.ADD, "n4")
    # then it is refused, and can be asked for again.
    done = net.membership_done("n0")
    assert done is not None
    assert done.reason is Reason.CHANGE_IN_PROGRESS


def test_4_1_a_server_accepts_a_leader_that_is_not_in_its_configuration() -> None:
    # Given a new server with an empty log, which knows no configuration,
    net = group(3)
    net.join("n3")
    assert not net.configuration("n3").members
    # when the leader that was told to add it sends the log,
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(2.0)
    # then it follows that leader, and has the configuration from it.
    assert net.raft("n3").leader == "n0"
    assert voters(net, "n3") == {"n0", "n1", "n2", "n3"}


def test_4_1_a_server_votes_for_a_candidate_that_is_not_in_its_configuration() -> None:
    # Given a voter that has not heard that n3 is one,
    net = group(3)
    net.join("n3")
    net.isolate("n2")
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(2.0)
    net.heal()
    net.isolate("n0")
    net.now += 1.0
    # when n3 asks for its vote, with a log at least as good,
    raft = net.raft("n3")
    request = VoteRequest(N3, raft.term + 1, raft.log.last, pre=True)  # type: ignore[arg-type]
    net.wires.clear()
    net.handle("n2", ev.TimerFired())
    net.wires.clear()
    net.handle("n2", ev.MessageReceived(request))
    # then it grants it: what counts is the candidate's configuration.
    answers = [m for source, to, m in net.wires if (source, to) == (N2, N3)]
    assert answers
    assert answers[-1].granted  # type: ignore[union-attr]


def test_4_2_1_a_new_server_catches_up_before_it_counts() -> None:
    # Given a group of three, all needed for nothing but a majority,
    net = group(3)
    net.join("n3")
    # when a server is added that gets nothing yet,
    net.drop = lambda _source, target, _message: target == N3
    net.change("n0", ChangeKind.ADD, "n3")
    net.run(2.0)
    # then it is no voter, and two of three still decide;
    assert voters(net, "n0") == {"n0", "n1", "n2"}
    net.isolate("n2")
    net.propose("n0")
    net.run(0.3)
    assert net.raft("n0").commit == net.raft("n0").log.last.index
    # and it becomes one when a round of catching up took less than an election timeout.
    net.heal()
    net.drop = lambda *_: False
    net.run(2.0)
    assert voters(net, "n0") == {"n0", "n1", "n2", "n3"}


def test_4_2_2_a_leader_that_is_removed_steps_down_when_that_is_committed() -> None:
    # Given a leader that is asked to remove itself,
    net = group(3)
    net.change("n0", ChangeKind.REMOVE, "n0")
    # when the entry is not committed yet, then it still leads, without counting itself;
    assert net.raft("n0").role is Role.LEADER
    assert net.raft("n0").commit < net.raft("n0").configuration_index
    # when it is, then it steps down, and one of the others leads.
    net.run(0.5)
    assert net.raft("n0").role is not Role.LEADER
    assert net.leader() in {"n1", "n2"}


def test_4_2_2_a_server_outside_its_own_configuration_still_starts_elections() -> None:
    # Given two servers, of which the leader has removed itself and could tell nobody,
    net = group(2)
    net.drop = lambda *_: True
    net.change("n0", ChangeKind.REMOVE, "n0")
    net.run(2.0)
    # when they hear each other again,
    net.drop = lambda *_: False
    net.run(4.0)
    # then n0, which alone has the longer log, has led until n1 could.
    assert voters(net, "n1") == {"n1"}
    assert net.raft("n1").role is Role.LEADER


def test_4_2_3_a_removed_server_does_not_disrupt() -> None:
    # Given a server that was removed while it was away and does not know,
    net = group(3)
    net.isolate("n2")
    net.change("n0", ChangeKind.REMOVE, "n2")
    net.run(5.0)
    term = net.raft("n0").term
    # when it comes back and asks for votes again and again,
    net.heal()
    net.run(10.0)
    # then nobody's term changes, and the leader stays.
    assert net.raft("n0").role is Role.LEADER
    assert {net.raft(name).term for name in ("n0", "n1")} == {term}


def test_4_4_availability_a_lost_disk_does_not_make_the_quorum_smaller() -> None:
    # Given a group of three, of which one lost its disk (rule R6, beyond the dissertation),
    net = group(3)
    net.wipe("n2")
    # when its new life is readmitted and another server is away,
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=9)
    net.isolate("n1")
    net.run(0.2)
    # then the two that remain decide nothing: one of them has forgotten what it promised.
    assert net.raft("n0").commit < net.raft("n0").configuration_index
