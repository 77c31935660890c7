"""Entries of the audit log as this replica has them, by number.

    rmq_sys_dledger_audit        number = queue offset: from the log's oldest file on
    rmq_sys_dledger_audit_kept   older ones, few by its bounds (keeping.py); sorted here

A number that is in both is read from the first one. Everything comes in pieces of a few records, so
that a reader may let the event loop go on between two of them.
"""

from __future__ import annotations

import bisect
from collections.abc import Generator, Iterator
from typing import NamedTuple

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.reader import RecordReader
from cluster.core.audit.entry import Audited, read_entry
from cluster.core.internal_topics import StateRecordError
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC
from cluster.errors import NotFound
from commitlog.errors import StoreDamaged
from commitlog.records.message import decode_message

PIECE_COUNT = 20
"""Records that are read in one go: one turn of the event loop."""


class Piece(NamedTuple):
    """Some entries, and how many records among them this node's disk has damaged."""

    entries: list[Audited]
    damaged: int = 0


def older(derived: DerivedStore, reader: RecordReader, before: int | None) -> Iterator[Piece]:
    """Entries with numbers below `before` (None: all), the newest first."""
    low, high = bounds(derived)
    at = high if before is None else min(max(before, low), high)
    yield from newest_first(derived, reader, AUDIT_TOPIC, low, at)
    wanted = low if before is None else min(low, before)
    found = yield from _kept_below(derived, reader, wanted)
    for end in range(len(found), 0, -PIECE_COUNT):
        yield Piece(found[max(end - PIECE_COUNT, 0) : end][::-1])


def newest_first(
    derived: DerivedStore, reader: RecordReader, topic: str, begin: int, end: int
) -> Iterator[Piece]:
    """Entries of the queue offsets from the last to the first."""
    while end > begin:
        at = max(begin, end - PIECE_COUNT)
        piece = read(derived, reader, topic, at, end)
        yield Piece(piece.entries[::-1], piece.damaged)
        end = at


def newer(derived: DerivedStore, reader: RecordReader, after: int) -> Iterator[Piece]:
    """Entries with numbers above `after`, the oldest first."""
    low, high = bounds(derived)
    if after < low - 1:
        found = yield from _kept_below(derived, reader, low)
        begin = bisect.bisect_right([one.number for one in found], after)
        for at in range(begin, len(found), PIECE_COUNT):
            yield Piece(found[at : at + PIECE_COUNT])
    at = max(after + 1, low)
    while at < high:
        end = min(high, at + PIECE_COUNT)
        yield read(derived, reader, AUDIT_TOPIC, at, end)
        at = end


def bounds(derived: DerivedStore, topic: str = AUDIT_TOPIC) -> tuple[int, int]:
    """First and next queue offset."""
    queue = derived.queue(topic, 0)
    return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)


def _kept_below(
    derived: DerivedStore, reader: RecordReader, number: int
) -> Generator[Piece, None, list[Audited]]:
    """Entries below `number` without records of their own any more, by number; each once.

    Yields a piece without entries for each one that it has read.
    """
    low, high = bounds(derived, AUDIT_KEPT_TOPIC)
    rows: dict[int, Audited] = {}
    for begin in range(low, high, PIECE_COUNT):
        end = min(begin + PIECE_COUNT, high)
        piece = read(derived, reader, AUDIT_KEPT_TOPIC, begin, end)
        rows.update((one.number, one) for one in piece.entries if one.number < number)
        yield Piece([], piece.damaged)
    return [rows[number] for number in sorted(rows)]


def read(derived: DerivedStore, reader: RecordReader, topic: str, begin: int, end: int) -> Piece:
    """Entries of the queue offsets; records of other versions are left out, damaged ones counted.

    What went with its log file since the reader began is passed over: it was kept before.
    """
    queue = derived.queue(topic, 0)
    found: list[Audited] = []
    damaged = 0
    for place in () if queue is None else queue.read(begin, end - begin):
        try:
            message = decode_message(bytes(reader.record(place.physical_offset)))
            found.append(read_entry(message.body, message.queue_offset, message.store_timestamp_ms))
        except StateRecordError:
            continue  # another version's, which is no reason to hide the others
        except StoreDamaged:
            damaged += 1
        except NotFound:
            continue
    return Piece(found, damaged)
