"""Reads the entries that are derived next: as many as one turn of the event loop may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cluster.broker.kernel.apply.chunk_size import (
    NEW_QUEUES_MAX,
    SLOW_ENTRIES_MAX,
    ChunkSize,
    are_quick,
)
from cluster.broker.kernel.apply.log_beginning import LogBeginning
from cluster.core.apply import AppliedState
from commitlog.dispatch.accel_columns import STRETCH_MIN, read_stretches
from commitlog.dispatch.columns import Stretch
from commitlog.dispatch.new_queues import QueueKey, new_queues
from commitlog.files.system import Buffer
from commitlog.queues.consume_queues import ConsumeQueues
from dledger.core.types import Index
from dledger.log.port import LogStore

#: Of one chunk; holds the event loop for some milliseconds. More is never left waiting, because
#: the log keeps its last 8 MiB in memory: reading them elsewhere costs more than deriving them.
CHUNK_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entries `first`..`last`; their bytes begin at `position` and end at `end`.

    `stretches`: what was read of `data` as columns, empty when nothing was. `new`: queues that get
    their first message, and have no files yet.
    """

    first: Index
    last: Index
    position: int
    end: int
    data: Buffer
    stretches: Sequence[Stretch]
    new: Mapping[QueueKey, None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many entries."""
        return self.last - self.first + 1


class ChunkReader:
    """Reads behind `state.applied`; `size` says how much at once."""

    def __init__(
        self,
        store: LogStore,
        state: AppliedState,
        queues: ConsumeQueues,
        size: ChunkSize,
        beginning: LogBeginning | None,
    ) -> None:
        self._store, self._state, self._queues = store, state, queues
        self.size, self._beginning = size, beginning

    def read(self, last: Index) -> Chunk:
        """The next chunk, of entries up to `last`; there are some."""
        first, count_max = Index(self._state.applied + 1), self.size.entries
        if self._beginning is not None:
            count_max = self._beginning.fit_chunk(first, self._state, count_max)
        last = Index(min(last, first + count_max - 1))
        chunk = self._read(first, last)
        if are_quick(chunk.stretches, self._queues.by_topic):
            return chunk
        if chunk.count > SLOW_ENTRIES_MAX:
            chunk = self._read(first, Index(first + SLOW_ENTRIES_MAX - 1))
        chunk = self._with_new(chunk)
        if len(chunk.new) > NEW_QUEUES_MAX:
            chunk = self._with_new(self._read(first, Index(first + NEW_QUEUES_MAX - 1)))
        return chunk

    def _read(self, first: Index, last: Index) -> Chunk:
        part = self._store.read_range(first, last, CHUNK_BYTES_MAX)
        data: Buffer = part.parts[0] if len(part.parts) == 1 else b"".join(part.parts)
        stretches: Sequence[Stretch] = ()
        if part.last - first + 1 >= STRETCH_MIN:
            stretches = read_stretches(data, part.position, self._state.special_topics)
        if all(stretch.columns is None for stretch in stretches):
            data, stretches = bytes(data), ()  # one copy for all who read it entry by entry
        end = part.position + part.size
        return Chunk(first, part.last, part.position, end, data, stretches)

    def _with_new(self, chunk: Chunk) -> Chunk:
        return replace(chunk, new=new_queues(chunk.data, chunk.stretches, self._queues))
