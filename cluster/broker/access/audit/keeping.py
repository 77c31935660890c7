"""Audit entries outlive the messages that they were written among.

    before the log's oldest files go:  entries in them ─► the same, written again  ─► LogTrimmed
                                       those of the days and bytes that are set

They are written in front of the record that lets the files go, so that no replica deletes the only
copy; where the disk is full the files go without them. They never take more than half of what goes,
and refusals no more than a quarter of them: strangers cannot push out what was done.

Reading and writing them takes many turns of the event loop, a few records in each: a leader that
read thousands at once would send no heartbeat meanwhile (L2).
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterator

from cluster.broker.access.audit.reading import Piece, bounds, newest_first
from cluster.broker.access.ports import AccessPorts
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.reader import RecordReader
from cluster.core.audit.entry import REFUSED, Audited, kept_record
from cluster.core.internal_topics import StateRecord
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC
from cluster.errors import ClusterError
from commitlog.errors import StoreError

DAY_MS = 24 * 3600 * 1000
RECORD_ROOM_BYTES = 256
"""What a record has beside its body, at most."""
REFUSED_SHARE = 4
"""Refusals take one byte of so many."""
WRITTEN_COUNT = 20
"""Records that are written in one turn."""

_log = logging.getLogger(__name__)


class Gathering:
    """Reads the entries to be written again before the log's files of [first, position) go.

    Entries below `first` were written again before. Damaged ones are left out.

    Attributes:
        records: those that were found so far, the newest first.
        damaged: records that could not be read.
    """

    def __init__(
        self,
        config: BrokerConfig,
        derived: DerivedStore,
        reader: RecordReader,
        *,
        first: int,
        position: int,
        now_ms: int,
    ) -> None:
        self.records: list[StateRecord] = []
        self.damaged = 0
        self._oldest_ms = now_ms - config.audit_days * DAY_MS
        self._bytes = min(config.audit_bytes_max, (position - first) // 2)
        self._refused_bytes = self._bytes // REFUSED_SHARE
        self._seen = set[int]()
        self._pieces = (
            piece
            for topic in (AUDIT_TOPIC, AUDIT_KEPT_TOPIC)  # those of the second one are older
            for piece in _between(derived, reader, topic, first, position)
        )
        self._has_more = config.audit_days > 0

    def step(self) -> bool:
        """Read a few records; False when there are no more to read. Raises StoreError."""
        piece = next(self._pieces, None) if self._has_more else None
        if piece is None:
            return False
        self.damaged += piece.damaged
        for audited in piece.entries:
            self._take(audited)
        return self._has_more

    def _take(self, audited: Audited) -> None:
        if audited.at_ms < self._oldest_ms or audited.number in self._seen or not self._has_more:
            return
        record = kept_record(audited)
        size = len(record.body) + RECORD_ROOM_BYTES
        if audited.entry.outcome == REFUSED:
            self._refused_bytes -= size
            if self._refused_bytes < 0:
                return
        self._bytes -= size
        if self._bytes < 0:
            self._has_more = False
            return
        self._seen.add(audited.number)
        self.records.append(record)


def _between(
    derived: DerivedStore, reader: RecordReader, topic: str, first: int, position: int
) -> Iterator[Piece]:
    """Entries of the topic with addresses in [first, position), the newest first."""
    low, high = bounds(derived, topic)
    queue = derived.queue(topic, 0)
    if queue is None:
        return

    def address(offset: int) -> int:
        return queue.read(offset, 1)[0].physical_offset

    end = low + bisect.bisect_left(range(low, high), position, key=address)
    low += bisect.bisect_left(range(low, end), first, key=address)
    yield from newest_first(derived, reader, topic, low, end)


class Keeping:
    """Writes entries again before files go: `begin`, and `then()` some turns later.

    In batches of their own, which a full disk refuses: then the files go without them (L5). The
    record that lets them go may take what the log keeps free for it, and they are larger than that.
    """

    def __init__(self, ports: AccessPorts) -> None:
        self._ports = ports
        self._gathering: Gathering | None = None

    def leadership_ended(self) -> None:
        """The next leader begins anew; entries that were written already are read once."""
        self._gathering = None

    def begin(self, first: int, position: int, then: Callable[[], None]) -> bool:
        """Entries at addresses of [first, position).

        False, and nothing begins, until an earlier `then` was called or its leadership ended.
        """
        if self._gathering is not None:
            return False
        ports = self._ports
        gathering = Gathering(
            ports.live.now,
            ports.derived,
            ports.reader,
            first=first,
            position=position,
            now_ms=ports.now_ms(),
        )
        self._gathering = gathering
        self._read(gathering, then)
        return True

    def _read(self, gathering: Gathering, then: Callable[[], None]) -> None:
        if self._gathering is not gathering:
            return
        try:
            has_more = gathering.step()
        except (ClusterError, StoreError) as error:
            _log.error("older audit entries are not kept: %s", error)
            has_more = False
        if has_more:
            self._ports.owned.call_soon(self._read, gathering, then)
            return
        if gathering.damaged:
            _log.error(
                "%d audit entries go with their log files: they are damaged on this node's disk",
                gathering.damaged,
            )
        self._write(gathering, gathering.records[::-1], then)

    def _write(
        self, gathering: Gathering, records: list[StateRecord], then: Callable[[], None]
    ) -> None:
        if self._gathering is not gathering:
            return
        if not records or not self._is_written(records[:WRITTEN_COUNT]):
            self._gathering = None
            then()
            return
        self._ports.owned.call_soon(self._write, gathering, records[WRITTEN_COUNT:], then)

    def _is_written(self, records: list[StateRecord]) -> bool:
        """False where the log does not take them, which is told."""
        failed = list[Exception]()

        def written(error: Exception | None) -> None:
            if error is not None:
                _log.error("%d audit entries are not kept: %s", len(records), error)
                failed.append(error)

        try:
            self._ports.writer.write_at_once(records, written)
        except ClusterError as full:
            written(full)
        return not failed
