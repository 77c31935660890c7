"""How many entries are derived in one turn of the event loop: heartbeats must not wait for it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from commitlog.dispatch.columns import Stretch

CHUNK_SECONDS_MAX = 0.03  # a tenth of the shortest election timeout
CHUNK_ENTRIES_MIN = 16
#: A usual entry takes 0.4 µs of a large chunk; one that is read alone 10, one of a new queue 500.
SLOW_ENTRIES_MAX = 1_000
#: The same while more topics than a few have no queue yet: a client may name hundreds in a moment,
#: and each of these entries may be the first one of a topic.
NEW_TOPICS_MAX, MAYBE_NEW_ENTRIES_MAX = 8, 64


class ChunkSize:
    """`entries`: for the next chunk, at most `limit`.

    Entries that make new queues cost a hundred times the others. So the next chunk is halved while
    chunks hold the event loop for too long, and grows again.
    """

    def __init__(self, limit: int) -> None:
        self._limit = self.entries = limit

    def took(self, count: int, seconds: float) -> None:
        """The last chunk had `count` entries and held the event loop for so long."""
        if seconds > CHUNK_SECONDS_MAX:
            self.entries = max(count // 2, CHUNK_ENTRIES_MIN)
        elif seconds < CHUNK_SECONDS_MAX / 4 and count >= self.entries:
            self.entries = min(2 * self.entries, self._limit)


class NewTopics:
    """How many topics may get their first message in the next chunk.

    Topics that nobody sends to stay without a queue for ever, as retry topics of quiet groups do.
    They count until a chunk has shown that it gave none of them a queue.
    """

    def __init__(self) -> None:
        self._idle = self._known_before = 0

    def slow_entries_max(self, topics: int, known: int) -> int:
        """Of a chunk that is not `are_quick`: `topics` were made, `known` have queues."""
        self._idle, self._known_before = min(self._idle, topics - known), known
        is_many = topics - known - self._idle > NEW_TOPICS_MAX
        return MAYBE_NEW_ENTRIES_MAX if is_many else SLOW_ENTRIES_MAX

    def took(self, topics: int, known: int) -> None:
        """A chunk that is not `are_quick` was derived; `known` topics have queues now."""
        if known == self._known_before:
            self._idle = topics - known


def are_quick(stretches: Sequence[Stretch], known: Mapping[bytes, Container[int]]) -> bool:
    """Nothing is to be read one by one, and no queue's files are to be made.

    `known`: the queues that there are, by topic.
    """
    return bool(stretches) and all(
        stretch.columns is not None
        and all(rows.queue_id in known.get(rows.topic, ()) for rows in stretch.columns.queues)
        for stretch in stretches
    )
