"""The core's picture of the log: the term of each index.

Terms never fall along a log, so the whole log is a short list of runs:

    index   0 1 2 3 4 5 6 7 8
    term    1 1 1 2 2 2 2 5 5      runs: (1, last 2) (2, last 6) (5, last 8)

The view is changed in the same step that asks storage to append or truncate, so the last entry that
votes are decided by is always the log's own (S6). What is before the first entry is the anchor: no
entry at all, or the last one of those that were deleted, whose term is still known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from dledger.core.types import NO_ENTRY, EntryId, Index, Term, TermRun


class LogView:
    """Index → term. `first`: the lowest index that is there, behind `anchor`."""

    __slots__ = ("_lasts", "_terms", "anchor", "first", "last")

    def __init__(self, runs: Iterable[TermRun] = (), anchor: EntryId = NO_ENTRY) -> None:
        self.anchor, self.first = anchor, Index(anchor.index + 1)
        self.last = anchor  # the last entry; the end of the last run while there is one
        self._terms: list[Term] = []
        self._lasts: list[Index] = []
        for run in runs:
            self.append(run.term, run.last)

    @property
    def runs(self) -> list[TermRun]:
        """Each term and its last index, in log order, from `first` on; the anchor is not among
        them.
        """
        return [TermRun(t, i) for t, i in zip(self._terms, self._lasts, strict=True)]

    def term_at(self, index: int) -> Term | None:
        """Term of the entry, also of the anchor; None where there is none."""
        if index == self.anchor.index:
            return self.anchor.term
        if index < self.first or not self._lasts or index > self._lasts[-1]:
            return None
        return self._terms[bisect_left(self._lasts, index)]

    def append(self, term: Term, last: Index) -> None:
        """Entries of `term` from the end up to `last`."""
        self.last = EntryId(term, last)
        if self._lasts:
            assert last > self._lasts[-1], "entries are appended at the end"
            assert term >= self._terms[-1], "terms never fall along a log"
            if term == self._terms[-1]:
                self._lasts[-1] = last
                return
        self._terms.append(term)
        self._lasts.append(last)

    def truncate_after(self, index: int) -> None:
        """Forget every entry above `index`."""
        while self._lasts and self._lasts[-1] > index:
            start = self._lasts[-2] + 1 if len(self._lasts) > 1 else self.first
            if start <= index:
                self._lasts[-1] = Index(index)
            else:
                self._lasts.pop()
                self._terms.pop()
        end = EntryId(self._terms[-1], self._lasts[-1]) if self._lasts else self.anchor
        self.last = end

    def drop_through(self, anchor: EntryId) -> None:
        """Forget every entry up to `anchor`, which is one of them."""
        assert self.term_at(anchor.index) == anchor.term
        gone = bisect_right(self._lasts, anchor.index)
        del self._lasts[:gone], self._terms[:gone]
        self.anchor, self.first = anchor, Index(anchor.index + 1)

    def restart(self, anchor: EntryId) -> None:
        """Forget every entry; the log is empty behind `anchor`."""
        self._lasts.clear()
        self._terms.clear()
        self.anchor, self.first, self.last = anchor, Index(anchor.index + 1), anchor

    def agree_through(self, previous: int, runs: Iterable[TermRun]) -> Index:
        """Highest index up to which entries after `previous`, described by `runs`, are ours too.

        The answer is at least `previous`: the caller has checked that entry already.
        """
        index = previous + 1
        for run in runs:
            while index <= run.last:
                place = bisect_left(self._lasts, index)
                if place == len(self._lasts) or self._terms[place] != run.term:
                    return Index(index - 1)
                index = min(self._lasts[place], run.last) + 1
        return Index(index - 1)

    def floor(self, term: Term, index: int) -> EntryId:
        """The last entry with an index ≤ `index` and a term ≤ `term`: where two logs may agree.

        Both sides of a rejected append use it, so that each round trip skips a whole term
        (paper 5.3, last paragraphs). The anchor when no entry qualifies.
        """
        if index <= self.anchor.index:
            return self.anchor
        place = bisect_left(self._lasts, index)
        if place == len(self._lasts):
            place -= 1
        while place >= 0:
            if self._terms[place] <= term:
                return EntryId(self._terms[place], Index(min(index, self._lasts[place])))
            place -= 1
        return self.anchor
