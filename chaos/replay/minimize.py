"""Delta debugging: the least of a list that still fails.

`ddmin` of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002),
without its tests of parts alone: a half is left out, or a smaller part, until no single one can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

Numbers = tuple[int, ...]


def minimize(numbers: Sequence[int], fails: Callable[[Numbers], bool]) -> Numbers:
    """Numbers of which none can be left out; `numbers` themselves are taken to fail."""
    if fails(()):
        return ()
    kept, parts = tuple(numbers), 2
    while len(kept) > 1:
        smaller = next((found for found in _candidates(kept, parts) if fails(found)), None)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def _candidates(kept: Numbers, parts: int) -> list[Numbers]:
    """Returns the kept faults without one part, for each part, the last part first, because the
    faults before it then stay as they were."""
    ends = [len(kept) * number // parts for number in range(parts + 1)]
    slices = list(itertools.pairwise(ends))
    return [kept[:begin] + kept[end:] for begin, end in reversed(slices)]
