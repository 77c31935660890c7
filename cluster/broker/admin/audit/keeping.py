"""Audit entries outlive the messages that they were written among.

    before the log's oldest files go:  entries in them ─► the same, written again  ─► LogTrimmed
                                       those of the days and bytes that are set

They are written in front of the record that lets the files go, so that no replica deletes the only
copy; where the disk is full the files go without them. They never take more than half of what goes,
and refusals no more than a quarter of them: strangers cannot push out what was done.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from cluster.broker.admin.audit.reading import bounds, newest_first
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.reader import RecordReader
from cluster.core.audit.entry import REFUSED, Audited, kept_record
from cluster.core.internal_topics import StateRecord
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC

DAY_MS = 24 * 3600 * 1000
RECORD_ROOM_BYTES = 256
"""What a record has beside its body, at most."""
REFUSED_SHARE = 4
"""Refusals take one byte of so many."""


def kept_records(
    config: BrokerConfig,
    derived: DerivedStore,
    reader: RecordReader,
    *,
    first: int,
    position: int,
    now_ms: int,
) -> list[StateRecord]:
    """Records to be written again before the log's files of [first, position) go.

    Those below `first` were written again before. Raises StoreDamaged for an entry that cannot be
    read.
    """
    if not config.audit_days:
        return []
    oldest_ms = now_ms - config.audit_days * DAY_MS
    bytes_max = min(config.audit_bytes_max, (position - first) // 2)
    refused_max = bytes_max // REFUSED_SHARE
    records: list[StateRecord] = []
    seen = set[int]()
    for topic in (AUDIT_TOPIC, AUDIT_KEPT_TOPIC):  # those of the second one are older
        for audited in _between(derived, reader, topic, first, position):
            if audited.at_ms < oldest_ms or audited.number in seen:
                continue
            record = kept_record(audited)
            size = len(record.body) + RECORD_ROOM_BYTES
            if audited.entry.outcome == REFUSED:
                refused_max -= size
                if refused_max < 0:
                    continue
            bytes_max -= size
            if bytes_max < 0:
                return records[::-1]
            seen.add(audited.number)
            records.append(record)
    return records[::-1]


def _between(
    derived: DerivedStore, reader: RecordReader, topic: str, first: int, position: int
) -> Iterator[Audited]:
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
