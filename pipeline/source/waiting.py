"""Finds the messages that wait to be read by a stream, and decides how many of them one micro-batch
takes. Pure.

stands at     queue has          then
5             0..30              5..30 wait
(new queue)   3..9               3..9 wait
5             20..30             5..30 wait; that 5..20 are gone is found when they are planned
30            0..8               made anew: it goes on at 0
5             (no queue)         the topic, or the queue, was deleted

offsets_max    split over the queues in proportion to their lag
bytes_max      the same, of messages of estimated size: a soft limit, as with Pulsar's connector
offsets_min    nothing before so many wait
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cluster.protocol.json_body import MessageQueue
from pipeline.source.bounds import Bounds, said
from pipeline.source.offsets import QueueRange, split_limit


class Waiting(NamedTuple):
    """`ranges`: per queue; `moved`: queues with a position that must change without a read;
    `problems`: sentences about lost messages."""

    ranges: list[QueueRange]
    moved: dict[MessageQueue, int]
    problems: list[str]


def waiting(
    before: Mapping[MessageQueue, int], known: Bounds, target: Mapping[MessageQueue, int] | None
) -> Waiting:
    """`target`: no further than that, and no queue that it does not have (availableNow)."""
    found = Waiting([], {}, [])
    for queue, row in known.items():
        first = before.get(queue, row.min_offset)
        if row.max_offset < first:
            found.problems.append(
                f"{said(queue)} ends at {row.max_offset} and was read up to {first}: "
                "the topic was made anew"
            )
            found.moved[queue] = first = row.min_offset
        last = row.max_offset if target is None else min(row.max_offset, target.get(queue, first))
        if last > first:
            found.ranges.append(QueueRange(queue, first, last))
    for queue in sorted(before.keys() - known.keys()):
        found.problems.append(f"{said(queue)} does not exist any more")
    return found


class Admission(NamedTuple):
    """Limits; 0: none."""

    offsets_max: int = 0
    bytes_max: int = 0
    offsets_min: int = 0


def admitted(
    lags: Sequence[QueueRange], how: Admission, record_bytes: Callable[[], Mapping[str, int]]
) -> list[QueueRange]:
    """The first part of each range; `record_bytes` is asked only when bytes are limited."""
    lag = {item.queue: item.size for item in lags}
    total = sum(lag.values())
    if not total or total < how.offsets_min:
        return []
    budget = how.offsets_max or total
    if how.bytes_max:
        sizes = record_bytes()
        size = sum(item.size * max(sizes.get(item.queue.topic, 1), 1) for item in lags)
        budget = min(budget, max(total * how.bytes_max // size, 1))
    taken = split_limit(lag, budget)
    return [
        item._replace(end=item.start + taken[item.queue]) for item in lags if item.queue in taken
    ]
