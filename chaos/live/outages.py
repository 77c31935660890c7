"""The spans in which faults took nodes out of service; the judges demand less in them."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.checkers.availability import Window
from chaos.checkers.levels import Blackout, Outage, find_blackouts
from chaos.drivers.stage import WHOLE
from chaos.faults import Driver, kind_of
from chaos.live.nemesis import Happened
from chaos.schedule import missing, tolerated

#: Between the moment that a fault begins and the one at which its course says that a majority is
#: whole nothing was done to anybody: such a seam would hide a silence by cutting it in two.
SEAM_SECONDS = 0.1


def windows_of(happened: Sequence[Happened], node_count: int, seconds: float) -> list[Window]:
    """Times in which a majority was in service; cut where all nodes were hit at once, but for the
    spans in which a course left a majority whole.
    """
    blows = sorted(
        blow
        for one in happened
        if missing(one.planned, node_count) == node_count
        for blow in _without_majority(one)
    )
    windows, begin = [], 0.0
    for start, end in blows:
        windows.append(Window("majority in service", begin, start))
        begin = end
    windows.append(Window("majority in service", begin, seconds))
    return [window for window in windows if window.end > window.begin]


def windows_by_fault(happened: Sequence[Happened], node_count: int) -> list[Window]:
    """Each fault that leaves a majority, from its beginning until its nodes were back, and each
    span in which one that hits all left one; by kind.
    """
    tolerable = tolerated(node_count)
    return [
        Window(one.planned.kind, *span)
        for one in happened
        for span in (
            _whole_time(one) if missing(one.planned, node_count) <= tolerable else whole_spans(one)
        )
    ]


def whole_spans(one: Happened) -> list[tuple[float, float]]:
    """When a majority was whole in the middle of a course, as it noted itself, in order of time.

    None of those of a run that was made before courses did.
    """
    noted = one.notes.get(WHOLE)
    if not isinstance(noted, list):
        return []
    spans = []
    for began, ended in _whole_time(one):
        for first, last in noted:
            span = max(first, began), ended if last is None else min(last, ended)
            spans += [span] if span[0] < span[1] else []
    return sorted(spans)


def _whole_time(one: Happened) -> list[tuple[float, float]]:
    """The span from the fault's beginning until its nodes were back; empty if its end was not
    recorded."""
    if one.began is None or one.ended is None:
        return []
    return [(one.began, one.ended + one.recovery)]


def _without_majority(one: Happened) -> list[tuple[float, float]]:
    """The parts of a fault's span in which no majority was whole."""
    spans, left = whole_spans(one), []
    for began, ended in _whole_time(one):
        at = began
        for first, last in [*spans, (ended, ended)]:
            left.append((at, first))
            at = max(at, last)
    seam = SEAM_SECONDS if spans else 0.0
    return [(first, last) for first, last in left if last - first > seam]


def blackouts_of(happened: Sequence[Happened], node_count: int) -> list[Blackout]:
    """When appends that were acknowledged in memory may have been taken back."""
    outages = [
        Outage(one.began, one.ended + one.recovery, frozenset(one.nodes), _power_gone(one))
        for one in happened
        if one.began is not None and one.ended is not None
        if kind_of(one.planned.kind).driver is not Driver.CLIENT
    ]
    return find_blackouts(outages, node_count)


def _power_gone(one: Happened) -> Blackout | None:
    found = one.notes.get("power_gone")
    return Blackout(*found) if isinstance(found, list) else None
