"""When nodes were out of service, as faults tell: what judges may demand depends on it."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.checkers.availability import Window
from chaos.checkers.levels import Blackout, Outage, find_blackouts
from chaos.faults import Driver, kind_of
from chaos.live.nemesis import Happened
from chaos.schedule import missing, tolerated


def windows_of(happened: Sequence[Happened], node_count: int, seconds: float) -> list[Window]:
    """Times in which a majority was in service; cut where all nodes were hit at once."""
    blows = sorted(
        (one.began, one.ended + one.recovery)
        for one in happened
        if one.began is not None
        and one.ended is not None
        and missing(one.planned, node_count) == node_count
    )
    windows, begin = [], 0.0
    for start, end in blows:
        windows.append(Window("majority in service", begin, start))
        begin = end
    windows.append(Window("majority in service", begin, seconds))
    return [window for window in windows if window.end > window.begin]


def windows_by_fault(happened: Sequence[Happened], node_count: int) -> list[Window]:
    """Each fault that leaves a majority, from its beginning until its nodes were back; by kind."""
    return [
        Window(one.planned.kind, one.began, one.ended + one.recovery)
        for one in happened
        if one.began is not None and one.ended is not None
        if missing(one.planned, node_count) <= tolerated(node_count)
    ]


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
