"""While a majority is connected, the service goes on: acknowledgements, gaps, recovery.

    ├── window: a majority is connected ──────────────┤
    ok  ok      ok                     ok  ok      ok
                  └─────── gap ────────┘

A window begins where a majority became connected (a heal, or a kill that leaves one) and ends with
the next change. Its first gap is the time to recover.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly
from chaos.history import Kind, Operation, Outcome


class Window(NamedTuple):
    """A time with a connected majority; `name` says which fault is on."""

    name: str
    begin: float
    end: float


class Served(NamedTuple):
    """The result for one window: acknowledged appends, longest time without one, time of the first
    one; seconds."""

    window: Window
    acked: int
    gap: float
    recovered: float | None


def measure(history: Iterable[Operation], windows: Sequence[Window]) -> list[Served]:
    """Counts acknowledged appends per window. Times in seconds; `recovered` is None if none was
    acknowledged."""
    ends = sorted(
        op.completed for op in history if op.kind is Kind.APPEND and op.outcome is Outcome.OK
    )
    rows = []
    for window in windows:
        inside = ends[bisect_left(ends, window.begin) : bisect_left(ends, window.end)]
        edges = [window.begin, *inside, window.end]
        gap = max(after - before for before, after in pairwise(edges))
        first = inside[0] - window.begin if inside else None
        rows.append(Served(window, len(inside), gap, first))
    return rows


def find_unavailability(
    history: Iterable[Operation],
    windows: Sequence[Window],
    *,
    gap_max: float,
    acked_min: int = 1,
) -> list[Anomaly]:
    """Windows longer than `gap_max` with a longer gap, or with too few acknowledgements."""
    found = []
    for served in measure(history, windows):
        window = served.window
        if window.end - window.begin <= gap_max:
            continue  # too short to demand anything
        if served.gap > gap_max:
            found.append(
                Anomaly(
                    "unavailable",
                    f"{window.name}, {window.begin:.3f}–{window.end:.3f} s: {served.gap:.3f} s "
                    f"without an acknowledgement though a majority was connected "
                    f"(at most {gap_max:g} s)",
                )
            )
        elif served.acked < acked_min:
            found.append(
                Anomaly(
                    "no-progress",
                    f"{window.name}, {window.begin:.3f}–{window.end:.3f} s: {served.acked} "
                    f"acknowledged appends, at least {acked_min} wanted",
                )
            )
    return found
