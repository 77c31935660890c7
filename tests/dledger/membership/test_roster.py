"""Who may speak to a node: members in the life that the group knows, and strangers to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from dledger.core.configuration import Change, ChangeKind, Configuration, changed, of_voters
from dledger.core.configuration import Member as GroupMember
from dledger.core.types import NodeId
from dledger.errors import MembershipRefused
from dledger.membership.handshake import Hello, LinkKind, Member
from dledger.membership.incarnations import KnownPeers
from dledger.membership.roster import (
    VISIT_SECONDS_MAX,
    VISITORS_MAX,
    NodeIncarnation,
    Roster,
    peer_address,
    service_of,
)

N0, N1, N3, N9 = NodeId("n0"), NodeId("n1"), NodeId("n3"), NodeId("n9")


@pytest.fixture
def roster(tmp_path: Path) -> Roster:
    made = Roster(KnownPeers(OS_FILES, tmp_path), NodeIncarnation(N9, 99))
    made.follow(Configuration((GroupMember(N0), GroupMember(N1, incarnation=7))))
    made.live_leader = lambda: N0
    return made


def hello(name: str, incarnation: int, address: str = "h:1") -> Hello:
    return Hello(LinkKind.CONTROL, Member("c", "g", NodeId(name), incarnation), N0, False, address)


def test_only_the_incarnation_that_the_group_knows(roster: Roster) -> None:
    assert roster.vouch(N1, 7) is None
    assert "readmit it: member replace n1" in (roster.vouch(N1, 8) or "")
    assert roster.vouch(N0, 3) is None, "the first one that is met"
    assert "was 3" in (roster.vouch(N0, 4) or "")
    assert roster.knows(N1, 7)
    assert not roster.knows(N1, 8)
    assert not roster.knows(N3, 1)


def test_the_incarnations_that_were_met_are_told_and_last(roster: Roster, tmp_path: Path) -> None:
    assert roster.incarnations() == {N9: 99}
    assert roster.vouch(N0, 3) is None
    again = Roster(KnownPeers(OS_FILES, tmp_path), NodeIncarnation(N9, 99))
    assert again.incarnations() == {N0: 3, N9: 99}


def test_a_node_that_joins_does_not_take_a_wiped_incarnation_for_the_one_that_is_meant(
    tmp_path: Path,
) -> None:
    """It has met nobody: what the entry that took it in has pinned is all it knows."""
    leader = Roster(KnownPeers(OS_FILES, tmp_path / "n0"), NodeIncarnation(N0, 1))
    (tmp_path / "n0").mkdir()
    leader.follow(of_voters((N0, N1)))
    assert leader.vouch(N1, 2) is None
    group = changed(leader.configuration, Change(ChangeKind.ADD, N3, 7), leader.incarnations())
    assert isinstance(group, Configuration)
    joiner = Roster(KnownPeers(OS_FILES, tmp_path), NodeIncarnation(N3, 7))
    joiner.follow(group)
    assert not joiner.knows(N1, 1002)
    assert joiner.knows(N1, 2)
    assert joiner.knows(N0, 1)


def test_a_stranger_asks_and_leads_only_where_no_other_leader_is_heard(roster: Roster) -> None:
    named = Member("c", "g", N3, 9, named=True)
    assert not roster.strangers(named)
    roster.live_leader = lambda: None
    assert roster.strangers(named)
    assert not roster.strangers(named._replace(named=False)), "one that forgot all is in no log"
    roster.live_leader = lambda: N3
    assert roster.strangers(named)


def test_a_node_without_a_group_lets_everybody_in(tmp_path: Path) -> None:
    roster = Roster(KnownPeers(OS_FILES, tmp_path), NodeIncarnation(N9, 99))
    assert N0 in roster
    assert roster.vouch(N0, 1) is None
    assert not roster.knows(N0, 1), "its answers would be heard"
    roster.follow(of_voters((N1,)))
    assert N0 not in roster


def test_a_change_is_made_of_what_the_hello_said(roster: Roster) -> None:
    with pytest.raises(MembershipRefused, match="n3 has not called this node"):
        roster.change(ChangeKind.ADD, N3)
    roster.visited(hello("n3", 5, "10.0.0.3:1 10.0.0.3:2"))
    assert roster.change(ChangeKind.ADD, N3) == Change(
        ChangeKind.ADD, N3, 5, "10.0.0.3:1 10.0.0.3:2"
    )
    roster.visited(hello("n1", 7))
    with pytest.raises(MembershipRefused, match="n1 has not come back as another incarnation"):
        roster.change(ChangeKind.READMIT, N1)
    roster.visited(hello("n1", 8))
    assert roster.change(ChangeKind.READMIT, N1).incarnation == 8
    assert roster.change(ChangeKind.REMOVE, N1) == Change(ChangeKind.REMOVE, N1)


def test_a_visit_is_forgotten_when_no_more_calls_come(roster: Roster) -> None:
    """A life that is gone must not be taken for the one that comes next under its name."""
    clock = [100.0]
    roster._now = lambda: clock[0]
    roster.visited(hello("n3", 5))
    clock[0] += VISIT_SECONDS_MAX + 0.1
    with pytest.raises(MembershipRefused, match="n3 has not called this node"):
        roster.change(ChangeKind.ADD, N3)
    roster.visited(hello("n1", 8))
    roster.follow(of_voters((N0,)))
    assert N1 not in roster.visitors


def test_visitors_are_bounded(roster: Roster) -> None:
    for number in range(VISITORS_MAX + 10):
        roster.visited(hello(f"x{number}", 1))
    assert len(roster.visitors) == VISITORS_MAX
    assert "x0" not in roster.visitors


def test_addresses() -> None:
    assert peer_address("10.0.0.3:1 svc:2") == ("10.0.0.3", 1)
    assert peer_address("[::1]:9") == ("::1", 9)
    assert peer_address("") is None
    assert service_of("10.0.0.3:1 svc:2") == "svc:2"
    assert service_of("10.0.0.3:1") == ""
