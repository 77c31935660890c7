"""The leader's table: which queue offset the next message of each queue gets (R9).

    leader's table = ends of the applied log + what this leadership has proposed since

The core takes proposals only after the leadership's own no-op is applied; every entry of earlier
leaderships lies before that no-op. So a row read from the applied ends *before this leadership's
first entry of that topic* is complete, and the table may be filled topic by topic, when first
asked. It is dropped when leadership ends: proposals of a lost leadership may never commit.
"""

from __future__ import annotations

from collections.abc import Callable


class LeaderQueueOffsets:
    """Topic → next queue offset by queue id. `applied_ends(topic, count)` gives the applied row."""

    def __init__(self, applied_ends: Callable[[str, int], list[int]]) -> None:
        self._applied_ends = applied_ends
        self._rows: dict[str, list[int]] = {}

    def row(self, topic: str, queues: int) -> list[int]:
        """The live row of `topic`, at least `queues` long; the caller advances it in place."""
        row = self._rows.get(topic)
        if row is None:
            row = self._rows[topic] = self._applied_ends(topic, queues)
        elif len(row) < queues:
            # More queues than before: the new ones have no entry of this leadership yet.
            row.extend(self._applied_ends(topic, queues)[len(row) :])
        assert len(row) >= queues, "a row covers every queue id that may be asked"
        return row

    def following(self, topic: str, queue: int) -> int:
        """The offset that `take` will give: a record is encoded with it before it is taken."""
        return self.row(topic, queue + 1)[queue]

    def take(self, topic: str, queue: int, count: int = 1) -> int:
        """First of `count` consecutive offsets of one queue, for records off the hot path.

        Their records are in the batch when this is called: no offset is left without one.
        """
        assert count > 0
        assert queue >= 0
        row = self.row(topic, queue + 1)
        first = row[queue]
        row[queue] = first + count
        return first

    def give_back(self, topic: str, queue: int, first: int, end: int) -> None:
        """Undo the newest `take` of a queue, after a certain refusal: none of it was written."""
        row = self._rows[topic]
        assert row[queue] == end, "only the newest offsets of a queue can be given back"
        row[queue] = first

    def drop(self) -> None:
        """Leadership ended."""
        self._rows.clear()
