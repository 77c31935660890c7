"""How many entries are derived in one turn of the event loop: heartbeats must not wait for it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from commitlog.dispatch.columns import Stretch

CHUNK_SECONDS_MAX = 0.03  # a tenth of the shortest election timeout
CHUNK_ENTRIES_MIN = 16
#: A usual entry takes 0.4 µs of a large chunk; one that is read alone 10, the first one of a queue
#: 200, beside the folders and the file that are made for it elsewhere (queues_ahead.py).
SLOW_ENTRIES_MAX = 1_000
#: So many queues at most may get their first messages in one chunk.
NEW_QUEUES_MAX = 64


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


def are_quick(stretches: Sequence[Stretch], known: Mapping[bytes, Container[int]]) -> bool:
    """True if no entry has to be read by itself, and no queue's files have to be made.

    `known`: the queues that there are, by topic.
    """
    return bool(stretches) and all(
        stretch.columns is not None
        and all(rows.queue_id in known.get(rows.topic, ()) for rows in stretch.columns.queues)
        for stretch in stretches
    )
