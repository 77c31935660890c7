"""A node's log says who leads, since which term, and why it asked for votes."""

from __future__ import annotations

import pytest

from dledger.core.types import NodeId, Role, Term
from dledger.runtime.role_story import RoleStory

ASKS = "asks whether a vote for itself would be won"
N0, N1 = NodeId("n0"), NodeId("n1")


def test_an_election_is_told_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    story = RoleStory(N0)
    for role, term, leader in (
        (Role.FOLLOWER, 3, None),
        (Role.FOLLOWER, 3, N1),
        (Role.PRE_CANDIDATE, 3, None),
        (Role.CANDIDATE, 4, None),
        (Role.LEADER, 4, N0),
        (Role.FOLLOWER, 5, None),
        (Role.PRE_CANDIDATE, 5, None),
        (Role.FAILED, 5, None),
    ):
        story.told(role, Term(term), leader)
        assert (story.role, story.term, story.leader) == (role, term, leader)
    assert [record.getMessage() for record in caplog.records] == [
        "n0: n1 leads in term 3",
        f"n0: has not heard from n1, which leads term 3; {ASKS}",
        "n0: asks for votes in term 4",
        "n0: leads in term 4",
        "n0: led in term 4 and does not any more; nobody is known to lead term 5 yet",
        f"n0: has heard of no leader in term 5; {ASKS}",
        "n0: takes no part any more, from term 5 on; the lines before say why",
    ]


def test_a_leader_that_another_one_replaced_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    story = RoleStory(N0, Role.LEADER, Term(4), N0)
    story.told(Role.FOLLOWER, Term(6), N1)
    assert caplog.messages == ["n0: led in term 4 and does not any more; n1 leads in term 6"]
