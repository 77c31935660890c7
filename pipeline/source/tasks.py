"""Ranges of queues → tasks. Pure: the same ranges and options give the same tasks, in one order.

bytes    each broker name's ranges are cut into about `partition_bytes` (64 MiB) of log
many     small queues share a task: a task costs 30 ms whatever it reads (docs/spec/pipeline.md 2.1)
big      queues are cut at equal fractions, all at the same ones: messages that were stored at
         the same time, in whichever queue, are read by the same task, so that ranges of the log
         are fetched once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.source.offsets import QueueRange

Task = tuple[QueueRange, ...]
TASKS_MAX = 100_000  # what a driver can still list


class Division(NamedTuple):
    """`partition_bytes` of log per task; the number of tasks is kept within the two bounds (0:
    none), as far as there are messages enough. `records_max`: no task has more messages, unless
    it has one of each queue; 0: any number. It goes with `most` = 0."""

    partition_bytes: int
    least: int = 0
    most: int = 0
    records_max: int = 0


def divide(
    ranges: Sequence[QueueRange], record_bytes: Mapping[str, int], how: Division
) -> list[Task]:
    """Tasks for all `ranges`; `record_bytes`: topic → about how many bytes one message has."""
    groups: dict[str, list[QueueRange]] = {}
    for item in sorted(ranges):
        if item.size > 0:
            groups.setdefault(item.queue.broker_name, []).append(item)
    if not groups:
        return []
    sizes = {
        name: sum(item.size * max(record_bytes.get(item.queue.topic, 1), 1) for item in items)
        for name, items in groups.items()
    }
    counts = {name: -(-size // how.partition_bytes) for name, size in sizes.items()}
    _bound(counts, sizes, how)
    if how.records_max:
        for name, items in groups.items():
            counts[name] = max(counts[name], _pieces(items, how.records_max))
    if how.most and len(groups) > how.most:
        return _packed(list(groups.values()), how.most)
    return [task for name, items in groups.items() for task in _cut(items, counts[name])]


def _bound(counts: dict[str, int], sizes: Mapping[str, int], how: Division) -> None:
    """Bring the number of tasks within the bounds, in proportion to the bytes of each broker."""
    total = sum(counts.values())
    wanted = min(max(total, how.least), how.most or TASKS_MAX, TASKS_MAX)
    if wanted == total:
        return
    bytes_in_all = sum(sizes.values())
    for name, size in sizes.items():
        counts[name] = max(1, wanted * size // bytes_in_all)
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))
    place = 0
    while sum(counts.values()) < wanted:
        counts[largest[place % len(largest)]] += 1
        place += 1
    while sum(counts.values()) > max(wanted, len(counts)):
        counts[max(largest, key=lambda name: counts[name])] -= 1


def _pieces(items: Sequence[QueueRange], records_max: int) -> int:
    """The least number of cuts that leaves no task with more messages."""
    largest = max(item.size for item in items)
    pieces = -(-sum(item.size for item in items) // records_max)
    while pieces < min(largest, TASKS_MAX) and _most(items, pieces) > records_max:
        pieces += 1
    return min(pieces, TASKS_MAX)


def _most(items: Sequence[QueueRange], pieces: int) -> int:
    """Messages of the largest task, at most."""
    return sum(-(-item.size // pieces) for item in items)


def _cut(items: Sequence[QueueRange], pieces: int) -> list[Task]:
    tasks: list[Task] = []
    for number in range(pieces):
        task = []
        for queue, start, end in items:
            first = start + (end - start) * number // pieces
            last = start + (end - start) * (number + 1) // pieces
            if last > first:
                task.append(QueueRange(queue, first, last))
        if task:
            tasks.append(tuple(task))
    return tasks


def _packed(groups: Sequence[Sequence[QueueRange]], most: int) -> list[Task]:
    """Fewer tasks than broker names: whole groups together."""
    return [
        tuple(item for group in groups[number::most] for item in group) for number in range(most)
    ]
