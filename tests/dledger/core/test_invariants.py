"""Each check of one node fails when its relation is broken; logs are compared by runs of terms."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dledger.core.invariants import ClusterChecker, broken_between, broken_in_state
from dledger.core.log_view import LogView
from dledger.core.status import NodeStatus, PeerStatus
from dledger.core.types import EntryId, Index, NodeId, Role, Term

N0, N1 = NodeId("n0"), NodeId("n1")
PEER = PeerStatus(N1, "replicating", Index(8), Index(7), Index(6), 0, 0.0)
LEADER = NodeStatus(
    N0, Role.LEADER, Term(3), N0, N0, EntryId(Term(3), Index(7)), Index(7), Index(6), Index(5), "",
    (PEER,),
)  # fmt: skip

# Terms never fall: each entry is of the term before it or of a later one.
TERMS = st.lists(st.sampled_from([0, 0, 0, 1, 2]), max_size=20).map(
    lambda steps: [Term(1 + term) for term in accumulate(steps)]
)


@given(TERMS, TERMS, st.integers(0, 20))
def test_the_first_difference_is_that_of_all_entries(
    committed: list[Term], terms: list[Term], dropped: int
) -> None:
    log = LogView()
    for index, term in enumerate(terms):
        log.append(term, Index(index))
    if 0 < dropped <= len(terms):
        log.drop_through(EntryId(terms[dropped - 1], Index(dropped - 1)))
    checker = ClusterChecker()
    checker.committed = committed
    wrong = [
        f"n0 lacks committed entry {EntryId(term, Index(index))}: has term {log.term_at(index)}"
        for index, term in enumerate(committed)
        if index >= log.first and log.term_at(index) != term
    ]
    assert checker.differs(log, "n0") == wrong[:1]


def test_a_sound_node_breaks_nothing() -> None:
    assert broken_in_state(LEADER) == []
    assert broken_between(LEADER, LEADER) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"flushed": Index(8)}, "flushed 8 is above the last entry 7"),
        ({"commit": Index(8)}, "commit 8 is above the last entry 7"),
        ({"last": EntryId(Term(4), Index(7))}, "the last entry's term 4 is above 3"),
        ({"leader": N1}, "leads term 3 but names n1 as leader"),
        ({"voted_for": N1}, "leads term 3 but voted for n1"),
        ({"role": Role.CANDIDATE, "voted_for": N1}, "stands in term 3 but voted for n1"),
        ({"peers": (PEER._replace(flushed=Index(8)),)}, "does not hold"),
        ({"peers": (PEER._replace(next=Index(7)),)}, "does not hold"),
        ({"peers": (PEER._replace(next=Index(9)),)}, "does not hold"),
    ],
)
def test_a_broken_relation_within_a_node_is_named(change: dict[str, object], said: str) -> None:
    (sentence,) = broken_in_state(LEADER._replace(**change))  # type: ignore[arg-type]
    assert sentence.startswith("n0: ")
    assert said in sentence


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"term": Term(2), "voted_for": N0}, "term fell from 3 to 2"),
        ({"commit": Index(5)}, "commit fell from 6 to 5"),
        ({"voted_for": N1}, "two votes in term 3: n0, n1"),
        ({"last": EntryId(Term(3), Index(6))}, "a leader dropped entries above 6"),
        (
            {"role": Role.FOLLOWER, "last": EntryId(Term(3), Index(5))},
            "the log ends at 5 below commit 6",
        ),
    ],
)
def test_a_broken_relation_between_two_moments_is_named(
    change: dict[str, object], said: str
) -> None:
    (sentence,) = broken_between(LEADER, LEADER._replace(**change))  # type: ignore[arg-type]
    assert sentence == f"n0: {said}"
