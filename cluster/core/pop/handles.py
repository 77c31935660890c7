"""Handles of taken messages, and the header texts that clients make them of.

Source: docs/spec/remoting.md 5.

    handle            "<start offset> <pop time> <invisible ms> <revive queue> <marker> <broker>
                       <queue> <offset>"                              one line, single spaces
    startOffsetInfo   "<marker> <queue> <start offset>"  joined by ";"
    msgOffsetInfo     "<marker> <queue> <offset>,<offset>"
    orderCountInfo    "<marker> qo<queue>%<offset> <times>" … and "<marker> <queue> <least times>"

The start offset is where the scan that found the message began; with group, topic, queue and pop
time it names the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.core.pop.names import ORDER_QUEUE, marker_of

_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Handle:
    """One taken message. `offset` is -1 where an old client leaves it out."""

    start: int
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    marker: str
    broker_name: str
    queue: int
    offset: int = -1

    @property
    def is_ordered(self) -> bool:
        """True if an ordered pop gave the message."""
        return self.revive_queue == ORDER_QUEUE

    def __str__(self) -> str:
        return " ".join(
            map(
                str,
                (
                    self.start,
                    self.pop_ms,
                    self.invisible_ms,
                    self.revive_queue,
                    self.marker,
                    self.broker_name,
                    self.queue,
                    self.offset,
                ),
            )
        )


def read_handle(text: str) -> Handle:
    """The receipt handle in `text`. Raises ValueError with the reason when it is none."""
    parts = text.split(" ")
    if not 7 <= len(parts) <= 8:
        raise ValueError(f"a handle has 7 or 8 parts, not {len(parts)}")
    numbers = [_number(parts[i]) for i in (0, 1, 2, 3, 6, *((7,) if len(parts) == 8 else ()))]
    start, pop_ms, invisible_ms, revive_queue, queue = numbers[:5]
    offset = numbers[5] if len(parts) == 8 else -1
    return Handle(start, pop_ms, invisible_ms, revive_queue, parts[4], parts[5], queue, offset)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:20]) > _LONG_MAX or len(text) > 19:
        raise ValueError(f"{text[:20]!r} in a handle is no number")
    return int(text)


def start_offset_info(rows: Sequence[tuple[str, int, int]]) -> str:
    """`rows`: (topic, queue, start offset)."""
    return ";".join(f"{marker_of(topic)} {queue} {start}" for topic, queue, start in rows)


def message_offset_info(rows: Sequence[tuple[str, int, Sequence[int]]]) -> str:
    """`rows`: (topic, queue, offsets of its messages)."""
    return ";".join(
        f"{marker_of(topic)} {queue} {','.join(map(str, offsets))}"
        for topic, queue, offsets in rows
    )


def order_count_info(topic: str, queue: int, counts: Mapping[int, int], messages: int) -> str:
    """How often messages of one queue were taken before; `counts` has those above 0 only."""
    marker = marker_of(topic)
    rows = [f"{marker} qo{queue}%{offset} {times}" for offset, times in sorted(counts.items())]
    least = min(counts.values()) if len(counts) == messages and counts else 0
    return ";".join([*rows, f"{marker} {queue} {least}"])
