"""The comparison of logs by runs of terms against one entry by entry."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from dledger.core.invariants import ClusterChecker
from dledger.core.log_view import LogView
from dledger.core.types import EntryId, Index, Term

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
