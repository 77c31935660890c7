"""How long was the silence around a fault."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence


def gap_after(acknowledged_at: Sequence[float], moment: float, until: float) -> float:
    """Longest time without an acknowledgement that touches `moment`..`until`, in seconds.

    `acknowledged_at` is in order of time.
    """
    first = max(0, bisect.bisect_right(acknowledged_at, moment) - 1)
    last = bisect.bisect_right(acknowledged_at, until)
    points = list(acknowledged_at[first:last])
    if not points or points[0] > moment:
        points.insert(0, moment)
    if points[-1] <= moment:
        points.append(until)
    return max((b - a for a, b in itertools.pairwise(points)), default=0.0)
