"""Ordered pops: messages given to a group of a queue, and whether more may be given (a fold).

A queue is blocked while one of the messages given last is neither acknowledged nor visible again.
Then the same messages are given once more, and how often that happened is told with each. The
group's offset is that of the first message that is not acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.core.pop.records import (
    NOT_KNOWN,
    STAYS,
    OrderAcked,
    OrderHidden,
    OrderTaken,
    Place,
)


@dataclass(slots=True)
class OrderRow:
    """The messages given last. `counts`: how often before, where that is not 0.

    Of `taken` all but how the group's offset moved then: a checkpoint keeps no more.
    """

    taken: OrderTaken
    left: set[int]
    counts: dict[int, int] = field(default_factory=dict)
    visible_ms: dict[int, int] = field(default_factory=dict)

    def visible_at_ms(self, offset: int) -> int:
        """When the message may be given again, in ms since 1970; `offset` is not checked."""
        return self.visible_ms.get(offset, self.taken.pop_ms + self.taken.invisible_ms)


class OrderTable:
    """(group, topic, queue) → OrderRow; a row goes when all of it is acknowledged."""

    def __init__(self) -> None:
        self._rows: dict[Place, OrderRow] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, place: Place) -> OrderRow | None:
        """The row of a place; None if no message given last waits for its acknowledgement."""
        return self._rows.get(place)

    def rows(self) -> Iterable[tuple[Place, OrderRow]]:
        """Everything."""
        return self._rows.items()

    def replay_taken(self, taken: OrderTaken) -> None:
        """Messages were given. Counts those given before once more, unless it is the same attempt
        again.
        """
        kept = replace(taken, logged_from=NOT_KNOWN, next_offset=STAYS)
        row = OrderRow(kept, set(taken.offsets))
        before = self._rows.get(taken.place)
        if before is not None:
            if taken.attempt and taken.attempt == before.taken.attempt:
                row.counts = dict(before.counts)  # the same attempt, asked for again
            else:
                given = set(before.taken.offsets)
                row.counts = {
                    offset: before.counts.get(offset, 0) + 1
                    for offset in taken.offsets
                    if offset in given
                }
        self._rows[taken.place] = row
        self.changes += 1

    def replay_acked(self, acked: OrderAcked) -> tuple[int, int] | None:
        """From which offset the group goes on to which; None when it was not given last."""
        row = self._rows.get(acked.place)
        if row is None or row.taken.pop_ms != acked.pop_ms or acked.offset not in row.taken.offsets:
            return None
        row.left.discard(acked.offset)
        self.changes += 1
        first = row.taken.offsets[0]
        if row.left:
            return first, min(row.left)
        del self._rows[acked.place]
        return first, max(row.taken.offsets) + 1

    def replay_hidden(self, hidden: OrderHidden) -> None:
        """Change when a message is visible again; ignored unless it is of the last pop and not
        acknowledged.
        """
        row = self._rows.get(hidden.place)
        if row is not None and row.taken.pop_ms == hidden.pop_ms and hidden.offset in row.left:
            row.visible_ms[hidden.offset] = hidden.visible_ms
            self.changes += 1

    def blocked_until_ms(self, place: Place, attempt: str, now_ms: int) -> int:
        """Time until which this queue gives no message; 0 when it may give one now."""
        row = self._rows.get(place)
        if row is None or (attempt and attempt == row.taken.attempt):
            return 0
        # One of them that a client still holds is enough: what follows would overtake it.
        until_ms = max((row.visible_at_ms(offset) for offset in row.left), default=0)
        return until_ms if until_ms > now_ms else 0

    def replay_deletion(self, group: str) -> None:
        """Forget all rows of the group."""
        for place in [place for place in self._rows if place.group == group]:
            del self._rows[place]
            self.changes += 1

    def to_checkpoint(self) -> list[list[Any]]:
        """One JSON row per queue, for `restore`."""
        return [
            [
                place.group,
                place.topic,
                place.queue,
                row.taken.pop_ms,
                row.taken.invisible_ms,
                list(row.taken.offsets),
                row.taken.attempt,
                sorted(row.left),
                sorted(row.counts.items()),
                sorted(row.visible_ms.items()),
            ]
            for place, row in self._rows.items()
        ]

    def restore(self, rows: Sequence[Sequence[Any]]) -> None:
        """Raises ValueError or TypeError."""
        self._rows = {}
        for (
            group,
            topic,
            queue,
            pop_ms,
            invisible_ms,
            offsets,
            attempt,
            left,
            counts,
            times,
        ) in rows:
            place = Place(str(group), str(topic), int(queue))
            given = OrderTaken(
                place, int(pop_ms), int(invisible_ms), tuple(map(int, offsets)), str(attempt)
            )
            self._rows[place] = OrderRow(
                given,
                set(map(int, left)),
                {int(offset): int(times_) for offset, times_ in counts},
                {int(offset): int(ms) for offset, ms in times},
            )
            self.changes += 1
