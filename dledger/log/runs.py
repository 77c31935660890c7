"""Terms of a log as runs: few numbers for any number of entries."""

from __future__ import annotations

from collections.abc import Sequence

from dledger.core.types import Index, Term, TermRun


def find_run(runs: Sequence[TermRun], index: int) -> int:
    """Number of the run that holds `index`; `len(runs)` above the last one."""
    low, high = 0, len(runs)
    while low < high:
        middle = (low + high) // 2
        if runs[middle].last < index:
            low = middle + 1
        else:
            high = middle
    return low


def term_of(runs: Sequence[TermRun], index: int) -> Term:
    """Term of an entry. Raises IndexError above the last run."""
    return runs[find_run(runs, index)].term


def runs_between(runs: list[TermRun], first: int, last: int) -> tuple[TermRun, ...]:
    """The runs of entries `first`..`last`, the last one cut there."""
    if last < first:
        return ()
    if len(runs) == 1 or runs[-2].last < first:
        return (TermRun(runs[-1].term, Index(last)),)
    start, end = find_run(runs, first), find_run(runs, last)
    return (*runs[start:end], TermRun(runs[end].term, Index(last)))


def join_runs(runs: list[TermRun], more: Sequence[TermRun]) -> None:
    """Add the runs of entries that were appended; entries known already may be among them."""
    for run in more:
        if runs and run.last <= runs[-1].last:
            continue
        if runs and runs[-1].term == run.term:
            runs[-1] = run
        else:
            runs.append(run)


def cut_runs(runs: list[TermRun], index: int, first: int) -> None:
    """Cut the runs at `index`, in a log that begins at `first`."""
    while runs and runs[-1].last > index:
        run = runs.pop()
        start = runs[-1].last + 1 if runs else first
        if start <= index:
            runs.append(TermRun(run.term, Index(index)))
