"""While a fault lasts that leaves a majority, the service goes on, if slower.

    kill        ├──┤       ├─────┤    ├──┤         all windows of one kind are one pool: a fault is
    latency         ├────────┤           ├──┤      short, and one election may fill it

    acknowledged in a pool  >=  share x rate x (its seconds - a silence that is allowed)

A pool that is no longer than the silence says nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.availability import Window
from chaos.history import Kind, Operation, Outcome


def pools(windows: Iterable[Window], *, silence: float) -> dict[str, list[Window]]:
    """Windows by name, where they are longer together than `silence` seconds."""
    found: dict[str, list[Window]] = defaultdict(list)
    for window in windows:
        found[window.name].append(window)
    return {name: rows for name, rows in found.items() if length(rows) > silence}


def find_no_progress(
    history: Iterable[Operation],
    windows: Iterable[Window],
    *,
    rate: float,
    share: float,
    silence: float,
) -> list[Anomaly]:
    """Pools with fewer acknowledged appends than `share` of `rate` a second. O((n + m) log n)."""
    ends = acknowledged(history)
    found = []
    for name, rows in sorted(pools(windows, silence=silence).items()):
        acked, seconds = count(ends, rows), length(rows)
        wanted = share * rate * (seconds - silence)
        if acked < wanted:
            found.append(
                Anomaly(
                    "no-progress",
                    f"{name}: {acked} acknowledged appends in {seconds:.1f} s with a majority in "
                    f"service, at least {wanted:.0f} wanted ({share:.0%} of {rate:.0f} a second)",
                )
            )
    return found


def acknowledged(history: Iterable[Operation]) -> list[float]:
    """When appends were acknowledged, in order."""
    done = (op for op in history if op.kind is Kind.APPEND and op.outcome is Outcome.OK)
    return sorted(op.completed for op in done)


def count(ends: Sequence[float], windows: Iterable[Window]) -> int:
    """How many of `ends` lie in these windows; one in two of them counts twice."""
    return sum(bisect_left(ends, one.end) - bisect_left(ends, one.begin) for one in windows)


def length(windows: Iterable[Window]) -> float:
    """Seconds of all of them together."""
    return sum(one.end - one.begin for one in windows)
