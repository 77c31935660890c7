"""How much work is demanded of a run: of its planned rate as a whole, of its own under each fault.

    the whole time with a majority      5 % of the sends a second that were planned
    faults that take a node away       10 % of what this run acknowledged a second, by kind
    faults that only slow down, cpu     2 % of it: 80 ms a link leave a tenth or less

The bounds are for a service that stands still or crawls, and not for a slow machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.availability import Window
from chaos.checkers.progress import acknowledged, count, find_no_progress, length, pools
from chaos.faults import Takes, kind_of
from chaos.history import Operation

SHARE_OF_PLANNED = 0.05
SHARE_WITHOUT_A_NODE = 0.1
SHARE_SLOWED_DOWN = 0.02


def find_slow_service(
    history: Sequence[Operation],
    windows: Sequence[Window],
    by_fault: Sequence[Window],
    *,
    rate: float,
    silence: float,
) -> list[Anomaly]:
    """`rate`: sends a second that were planned. `silence`: seconds allowed in each pool."""
    seconds = length(windows)
    own = count(acknowledged(history), windows) / seconds if seconds else 0.0
    slow = [one for one in by_fault if _slows_down(one.name)]
    others = [one for one in by_fault if not _slows_down(one.name)]
    found = []
    for some, base, share in (
        (windows, rate, SHARE_OF_PLANNED),
        (others, own, SHARE_WITHOUT_A_NODE),
        (slow, own, SHARE_SLOWED_DOWN),
    ):
        found += find_no_progress(history, some, rate=base, share=share, silence=silence)
    return found


def judged_windows(
    windows: Sequence[Window], by_fault: Sequence[Window], *, silence: float
) -> Mapping[str, Sequence[Window]]:
    """Name of an anomaly → the windows that are long enough to show it."""
    pooled = pools([*windows, *by_fault], silence=silence)
    return {
        "unavailable": [one for one in windows if one.end - one.begin > silence],
        "no-progress": [one for rows in pooled.values() for one in rows],
    }


def _slows_down(kind: str) -> bool:
    return kind == "cpu" or kind_of(kind).takes is Takes.NOTHING
