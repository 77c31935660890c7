"""The leaders that a node has seen: a row for each term, and why it was elected itself."""

from __future__ import annotations

import pytest

from cluster.client.admin.lead_moves import merged
from cluster.core.lead_history import HANDED_OVER, KEPT, NOT_HEARD, NOT_TOLD, LeadHistory, LeadSeen
from dledger.core.types import NodeId, Role, Term

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")
FOLLOWER, ASKS, STANDS, LEADS = Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE, Role.LEADER


def history(*told: tuple[Role, int, NodeId | None]) -> list[tuple[int, int, str, str]]:
    made = LeadHistory(since_ms=5)
    for at_ms, (role, term, leader) in enumerate(told, 10):
        made.told(role, Term(term), leader, at_ms)
    return [(row.at_ms, row.term, row.leader, row.why) for row in made.rows]


def test_each_term_with_a_leader_has_one_row() -> None:
    assert history(
        *((FOLLOWER, 0, None), (FOLLOWER, 1, None), (FOLLOWER, 1, N0), (FOLLOWER, 1, N0)),
        *((FOLLOWER, 3, None), (FOLLOWER, 3, N2), (FOLLOWER, 3, None), (FOLLOWER, 3, N2)),
    ) == [(12, 1, "n0", NOT_TOLD), (15, 3, "n2", NOT_TOLD)]


@pytest.mark.parametrize(
    ("stood", "why"), [((ASKS, STANDS), NOT_HEARD), ((STANDS,), HANDED_OVER)], ids=str
)
def test_a_node_knows_why_it_was_elected(stood: tuple[Role, ...], why: str) -> None:
    steps = [(role, 2, None) for role in stood]
    assert history((FOLLOWER, 1, N0), *steps, (LEADS, 2, N1))[-1][2:] == ("n1", why)


def test_a_reason_ends_with_the_election_that_it_was_of() -> None:
    lost = history((FOLLOWER, 1, N0), (ASKS, 1, None), (STANDS, 2, None), (FOLLOWER, 2, N2))
    assert lost[-1][1:] == (2, "n2", NOT_TOLD)
    later = history(
        *((FOLLOWER, 1, N0), (ASKS, 1, None), (FOLLOWER, 1, N0), (STANDS, 2, None)),
        (LEADS, 2, N1),
    )
    assert later[-1][1:] == (2, "n1", HANDED_OVER)


def test_the_first_leader_that_is_known_took_the_lead_from_none() -> None:
    alone = history((ASKS, 0, None), (STANDS, 1, None), (LEADS, 1, N0), (LEADS, 1, N0))
    assert [row[1:] for row in alone] == [(1, "n0", NOT_TOLD)]
    again = history((FOLLOWER, 1, N0), (STANDS, 2, None), (LEADS, 2, N0))
    assert again[-1][1:] == (2, "n0", NOT_TOLD), "it handed nothing over to itself"


def test_old_rows_are_forgotten() -> None:
    rows = history(*((FOLLOWER, term, N0) for term in range(1, KEPT + 50)))
    assert len(rows) == KEPT
    assert rows[-1][1] == KEPT + 49


def test_a_list_that_has_forgotten_rows_begins_with_its_oldest() -> None:
    made = LeadHistory(since_ms=5)
    for term in range(1, KEPT + 1):
        made.told(FOLLOWER, Term(term), N0, 10 + term)
    assert made.since_ms == 5, "none is forgotten yet"
    made.told(FOLLOWER, Term(KEPT + 1), N1, 999)
    assert made.since_ms == made.rows[0].at_ms == 12


def test_rows_that_go_are_a_change_also_when_none_comes() -> None:
    made = LeadHistory(5, [LeadSeen(6, 3, N0, NOT_TOLD), LeadSeen(7, 90, N0, NOT_TOLD)])
    made.told(FOLLOWER, Term(3), N0, 8)
    assert [row.term for row in made.rows] == [3]
    assert made.changes == 1


def answer(node: str, *rows: tuple[int, int, str, str]) -> dict[str, object]:
    names = ("at_ms", "term", "leader", "why")
    return {"node": node, "rows": [dict(zip(names, row, strict=True)) for row in rows]}


def test_the_winners_row_counts_and_else_the_earliest() -> None:
    found = merged(
        [
            answer("n0", (100, 1, "n0", NOT_TOLD), (205, 2, "n1", NOT_TOLD)),
            answer("n1", (110, 1, "n0", NOT_TOLD), (210, 2, "n1", NOT_HEARD)),
            answer("n2", (90, 1, "n0", NOT_TOLD), (400, 7, "n3", NOT_TOLD)),
            answer("n4", (390, 7, "n3", NOT_TOLD)),
        ]
    )
    assert [tuple(row.values()) for row in found] == [
        (100, 1, None, "n0", NOT_TOLD),
        (210, 2, "n0", "n1", NOT_HEARD),
        (390, 7, "n1", "n3", NOT_TOLD),
    ]
