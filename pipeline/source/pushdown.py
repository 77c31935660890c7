"""Narrows a batch read by Spark's simple comparisons (docs/spec/pipeline.md 2.6, item 7).

Rows are never dropped here one by one: ranges shrink, and Spark applies every filter again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.source.bounds import by_time
from pipeline.source.offsets import QueueRange
from pipeline.source.option_values import NUMBER_MAX
from pipeline.source.remote import Remote

_LOWER = ("GreaterThan", "GreaterThanOrEqual", "EqualTo")
_UPPER = ("LessThan", "LessThanOrEqual", "EqualTo")


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The messages that can match: `topics` and `queues` (None: all), offsets and store times in ms
    within inclusive bounds."""

    topics: frozenset[str] | None = None
    queues: frozenset[int] | None = None
    offset_first: int = 0
    offset_last: int = NUMBER_MAX
    time_first_ms: int = 0
    time_last_ms: int = NUMBER_MAX


def narrowed(filters: Iterable[Any], *, kafka: bool) -> Narrowed:
    """Returns the messages that can match all of `filters` (Spark's `Filter` values, joined by
    AND)."""
    topics: frozenset[str] | None = None
    queues: frozenset[int] | None = None
    offset, time_ms = [0, NUMBER_MAX], [0, NUMBER_MAX]
    queue_column = "partition" if kafka else "queue"
    for item in filters:
        attribute: tuple[str, ...] = getattr(item, "attribute", ())
        name = attribute[0] if len(attribute) == 1 else ""
        values = _values(item)
        if name == "topic" and values is not None:
            topics = values if topics is None else topics & values
        elif name == queue_column and values is not None:
            queues = values if queues is None else queues & values
        elif name == "offset":
            _tighten(offset, item, getattr(item, "value", None))
        elif name == "timestamp" and isinstance(getattr(item, "value", None), datetime):
            # Whole milliseconds on either side: Spark compares the exact time again.
            _tighten(time_ms, item, int(item.value.timestamp() * 1000), slack=1)
    return Narrowed(topics, queues, offset[0], offset[1], time_ms[0], time_ms[1])


def _values(item: Any) -> frozenset[Any] | None:
    """The only values that an equality leaves; None for another comparison."""
    kind = type(item).__name__
    if kind == "EqualTo":
        return frozenset([item.value])
    return frozenset(item.value) if kind == "In" else None


def _tighten(bounds: list[int], item: Any, value: Any, slack: int = 0) -> None:
    kind = type(item).__name__
    if not isinstance(value, int):
        return
    if kind in _LOWER:
        bounds[0] = max(bounds[0], value + (kind == "GreaterThan" and not slack) - slack)
    if kind in _UPPER:
        bounds[1] = min(bounds[1], value - (kind == "LessThan" and not slack) + slack)


def narrow(place: Remote, ranges: Sequence[QueueRange], to: Narrowed) -> list[QueueRange]:
    """Returns the ranges without messages that cannot match. Store times never decrease along a
    queue."""
    kept = [
        item._replace(
            start=min(max(item.start, to.offset_first), item.end),
            end=max(min(item.end, to.offset_last + 1), item.start),
        )
        for item in ranges
        if (to.topics is None or item.queue.topic in to.topics)
        and (to.queues is None or item.queue.queue_id in to.queues)
    ]
    kept = [item for item in kept if item.end > item.start]
    if kept and to.time_first_ms > 0:
        first = by_time(place, {item.queue: to.time_first_ms for item in kept})
        kept = [item._replace(start=max(item.start, first[item.queue])) for item in kept]
    if kept and to.time_last_ms < NUMBER_MAX:
        last = by_time(place, {item.queue: to.time_last_ms + 1 for item in kept})
        kept = [item._replace(end=min(item.end, last[item.queue])) for item in kept]
    return [item for item in kept if item.end > item.start]
