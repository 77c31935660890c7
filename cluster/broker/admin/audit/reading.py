"""Entries of the audit log as this replica has them, by number.

    rmq_sys_dledger_audit        number = queue offset: from the log's oldest file on
    rmq_sys_dledger_audit_kept   older ones, few by its bounds (keeping.py); sorted here

A number that is in both is read from the first one.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.reader import RecordReader
from cluster.core.audit.entry import Audited, read_entry
from cluster.core.internal_topics import StateRecordError
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC
from commitlog.records.message import decode_message

CHUNK_COUNT = 100
"""Records that are read in one go."""


def older(derived: DerivedStore, reader: RecordReader, before: int | None) -> Iterator[Audited]:
    """Entries with numbers below `before` (None: all), the newest first."""
    low, high = bounds(derived)
    at = high if before is None else min(max(before, low), high)
    yield from newest_first(derived, reader, AUDIT_TOPIC, low, at)
    for audited in reversed(kept(derived, reader)):
        if audited.number < low and (before is None or audited.number < before):
            yield audited


def newest_first(
    derived: DerivedStore, reader: RecordReader, topic: str, begin: int, end: int
) -> Iterator[Audited]:
    """Entries of the queue offsets from the last to the first. Raises StoreDamaged."""
    while end > begin:
        at = max(begin, end - CHUNK_COUNT)
        yield from reversed(read(derived, reader, topic, at, end))
        end = at


def newer(derived: DerivedStore, reader: RecordReader, after: int) -> Iterator[Audited]:
    """Entries with numbers above `after`, the oldest first."""
    low, high = bounds(derived)
    if after < low - 1:
        found = [audited for audited in kept(derived, reader) if audited.number < low]
        yield from found[bisect.bisect_right([one.number for one in found], after) :]
    at = max(after + 1, low)
    while at < high:
        end = min(high, at + CHUNK_COUNT)
        yield from read(derived, reader, AUDIT_TOPIC, at, end)
        at = end


def bounds(derived: DerivedStore, topic: str = AUDIT_TOPIC) -> tuple[int, int]:
    """First and next queue offset."""
    queue = derived.queue(topic, 0)
    return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)


def kept(derived: DerivedStore, reader: RecordReader) -> list[Audited]:
    """Entries without records of their own any more, by number; each once."""
    low, high = bounds(derived, AUDIT_KEPT_TOPIC)
    rows: dict[int, Audited] = {}
    for begin in range(low, high, CHUNK_COUNT):
        end = min(begin + CHUNK_COUNT, high)
        rows.update(
            (one.number, one) for one in read(derived, reader, AUDIT_KEPT_TOPIC, begin, end)
        )
    return [rows[number] for number in sorted(rows)]


def read(
    derived: DerivedStore, reader: RecordReader, topic: str, begin: int, end: int
) -> list[Audited]:
    """Entries of the queue offsets; records of other kinds are left out. Raises StoreDamaged."""
    queue = derived.queue(topic, 0)
    found: list[Audited] = []
    for place in () if queue is None else queue.read(begin, end - begin):
        message = decode_message(bytes(reader.record(place.physical_offset)))
        try:
            found.append(read_entry(message.body, message.queue_offset, message.store_timestamp_ms))
        except StateRecordError:
            continue  # another version's, which is no reason to hide the others
    return found
