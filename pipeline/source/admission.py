"""Decides how many of the waiting messages one micro-batch takes. Pure.

offsets_max    split over the queues in proportion to their lag
bytes_max      the same, of messages of estimated size: a soft limit, as with Pulsar's connector
offsets_min    nothing before so many wait
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pipeline.source.offsets import QueueRange, split_limit


class Admission(NamedTuple):
    """Limits; 0: none."""

    offsets_max: int = 0
    bytes_max: int = 0
    offsets_min: int = 0


def admitted(
    lags: Sequence[QueueRange], how: Admission, record_bytes: Callable[[], Mapping[str, int]]
) -> list[QueueRange]:
    """The first part of each range; `record_bytes` is asked only when bytes are limited."""
    waiting = {item.queue: item.size for item in lags}
    total = sum(waiting.values())
    if not total or total < how.offsets_min:
        return []
    budget = how.offsets_max or total
    if how.bytes_max:
        sizes = record_bytes()
        size = sum(item.size * max(sizes.get(item.queue.topic, 1), 1) for item in lags)
        budget = min(budget, max(total * how.bytes_max // size, 1))
    taken = split_limit(waiting, budget)
    return [
        item._replace(end=item.start + taken[item.queue]) for item in lags if item.queue in taken
    ]
