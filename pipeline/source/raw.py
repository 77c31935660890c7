"""Messages by raw ranges: entries of their queues say where they are, the log has the bytes.

    31003  entries of every queue of the task   position, size, tags code: 20 bytes per message
           sorted by position, cut into spans   neighbours of all queues are fetched together, once
    31001  the bytes of each span               the next ones come while this one is parsed

The queue decides what is a message of it, so that what only the log has (a half message, a delivery
that came second) is never taken for one. Each record's headers must be what its queue entry says,
and its checksum must fit. Where they do not, the log of that replica is damaged: the messages are
pulled, which makes the broker verify. The order of rows stays that of the log: a sink counts rows,
and an attempt that met the damage must count like one that did not.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster.errors import ServerError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import decode, encode
from cluster.protocol.raw_ranges import (
    LOG_RANGE_BYTES_MAX,
    QUEUE_RANGE_COUNT_MAX,
    LogRangeRequest,
    QueueRangeRequest,
    QueueRangeResponse,
)
from commitlog.errors import StoreDamaged
from commitlog.queues.queue_entry import ENTRY_SIZE
from commitlog.queues.tag_filter import subscription_hashes
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY
from pipeline.frames.fields import ENTRY_FIELDS, Int64, copied_at, fields_at
from pipeline.frames.locate import Found
from pipeline.source.bounds import lost, said
from pipeline.source.offsets import QueueRange
from pipeline.source.options import SourceOptions
from pipeline.source.pulling import pulled, tags_of
from pipeline.source.records import Chunk, check_entries, in_log_order, with_tags
from pipeline.source.remote import Remote

GAP_BYTES_MAX = 64 << 10  # bytes of others that are fetched along rather than asked around
AHEAD_SPANS = 2  # fetched while one is parsed; bounds memory
SPARSE_RATIO = 6  # bytes fetched per byte wanted; above it pulls cost less

_ENTRY = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags", ">i8")])
_RECORD = {  # of the record behind an entry's header (docs/spec/store.md 1.1)
    "record_size": (HEADER_SIZE, ">i4"),
    "record_position": (HEADER_SIZE + 28, ">i8"),
}
_HEAD = fields_at(ENTRY_FIELDS | _RECORD, HEADER_SIZE + 36)
_OK = frozenset({0})
_log = logging.getLogger(__name__)

assert _ENTRY.itemsize == ENTRY_SIZE


class Places(NamedTuple):
    """Messages by their place in the log, in order. Arrays run in parallel.

    `position`, `size`: of the record, without entry header; `queue`: number of its range.
    """

    position: Int64
    size: Int64
    queue: Int64
    offset: Int64

    def part(self, first: int, last: int) -> Places:
        """Messages number `first` up to `last`, which is left out."""
        return Places(*(column[first:last] for column in self))


def places_of(remote: Remote, options: SourceOptions, task: Sequence[QueueRange]) -> Places:
    """Returns the places of the task's messages: of all, or of those with a wanted tags' hash.

    All queues are of one broker name. The entries hold the hash of each message's tags, so that
    what nobody wants is not fetched; the tags themselves are compared when they are here.

    Raises SourceError, DataLoss; Unauthorized or RequestNotSupported when raw ranges are not for
    us.
    """
    hashes = subscription_hashes(options.expression)
    columns = []
    for number, item in enumerate(task):
        offset, entries = _entries(remote, options, item)
        numbers = np.arange(offset, offset + len(entries), dtype=np.int64)
        if hashes is not None:
            kept = _may_match(entries["tags"].astype(np.int64), hashes)
            entries, numbers = entries[kept], numbers[kept]
        position, size = entries["position"].astype(np.int64), entries["size"].astype(np.int64)
        columns.append((position, size, np.full(len(entries), number), numbers))
    position, size, queue, numbers = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(position, kind="stable")
    return Places(position[order], size[order], queue[order], numbers[order])


def _may_match(tags: Int64, hashes: frozenset[int]) -> NDArray[np.bool_]:
    """By the hash; a number beyond 32 bits is none (it leads to an extension of the queue, or is a
    time), so that it may be anything."""
    no_hash = (tags < -(1 << 31)) | (tags >= 1 << 31)
    found: NDArray[np.bool_] = no_hash | np.isin(tags, list(hashes))
    return found


def _entries(
    remote: Remote, options: SourceOptions, wanted: QueueRange
) -> tuple[int, NDArray[Any]]:
    """Offset of the first entry, and the entries up to the range's end."""
    topic, broker, queue_id = wanted.queue
    offset, first, pauses = wanted.start, wanted.start, 0
    parts = [np.empty(0, _ENTRY)]
    while offset < wanted.end:
        count = min(wanted.end - offset, QUEUE_RANGE_COUNT_MAX)
        ext = encode(QueueRangeRequest(topic, queue_id, offset, count, broker))
        code = RequestCode.FETCH_QUEUE_RANGE
        answer = remote.run(remote.ask(broker, topic, code, ext, leader=pauses > 0))
        found = np.frombuffer(answer.body, _ENTRY)
        if len(found):
            parts.append(found)
            offset, pauses = offset + len(found), 0
            continue
        row = decode(QueueRangeResponse, answer.ext)
        if row.min_offset > offset:
            to = min(row.min_offset, wanted.end)
            lost(options, f"{said(wanted.queue)} begins at {row.min_offset}: {offset} to {to} gone")
            offset = first = to
            parts = parts[:1]
        else:
            pauses += 1
            problem = ServerError(f"{said(wanted.queue)} has nothing at offset {offset} yet")
            remote.run(remote.pause(pauses, problem))
    return first, np.concatenate(parts)


def is_sparse(places: Places) -> bool:
    """Would mostly bytes of others be fetched?"""
    if not len(places.position):
        return False
    ends = places.position + places.size
    gaps = places.position[1:] - ends[:-1]
    fetched = int(places.size.sum() + gaps[gaps <= GAP_BYTES_MAX].sum())
    return fetched > SPARSE_RATIO * int(places.size.sum())


def cut_spans(places: Places, size_max: int) -> list[tuple[int, int]]:
    """Runs `first`..`last` - 1 of messages that are fetched together: near each other, and at most
    `size_max` bytes, or one larger message.
    """
    starts, ends = places.position - HEADER_SIZE, places.position + places.size
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > GAP_BYTES_MAX) + 1
    stops = [*breaks.tolist(), len(starts)]
    spans = []
    first = 0
    for stop in stops:
        while first < stop:
            last = int(np.searchsorted(ends[:stop], starts[first] + size_max, side="right"))
            last = max(last, first + 1)
            spans.append((first, last))
            first = last
    return spans


def fetched(
    remote: Remote, options: SourceOptions, task: Sequence[QueueRange], places: Places
) -> Iterator[Chunk]:
    """Exactly the messages at `places`. Raises SourceError, StoreDamaged."""
    spans = deque(cut_spans(places, options.fetch_bytes))
    coming: deque[tuple[tuple[int, int], concurrent.futures.Future[Frame]]] = deque()
    while spans or coming:
        while spans and len(coming) <= AHEAD_SPANS:
            span = spans.popleft()
            begin, end = _bounds(places, span)
            coming.append((span, _start(remote, task, begin, end)))
        span, answer = coming.popleft()
        part = places.part(*span)
        begin, end = _bounds(places, span)
        data = _whole(remote, task, begin, end, answer.result().body)
        try:
            yield _chunk(options, memoryview(data), begin, part)
        except StoreDamaged as damage:
            _log.warning("%s; these messages are pulled instead", damage)
            instead = [
                chunk for item in _ranges(task, part) for chunk in pulled(remote, options, item)
            ]
            yield in_log_order(instead)


def _bounds(places: Places, span: tuple[int, int]) -> tuple[int, int]:
    first, last = span[0], span[1] - 1
    begin = int(places.position[first]) - HEADER_SIZE
    return begin, int(places.position[last] + places.size[last])


def _start(
    remote: Remote, task: Sequence[QueueRange], begin: int, end: int
) -> concurrent.futures.Future[Frame]:
    topic, broker, _ = task[0].queue
    ext = encode(LogRangeRequest(begin, min(end - begin, LOG_RANGE_BYTES_MAX), broker))
    return remote.start(broker, topic, RequestCode.FETCH_LOG_RANGE, ext, results=_OK)


def _whole(remote: Remote, task: Sequence[QueueRange], begin: int, end: int, data: bytes) -> bytes:
    """All bytes of a span: an answer may be shorter, on a replica that lags even empty."""
    if len(data) == end - begin:
        return data
    parts, at, pauses = [data], begin + len(data), 0
    while at < end:
        if not parts[-1]:
            pauses += 1
            problem = ServerError(f"{task[0].queue.broker_name} ends below position {at} yet")
            remote.run(remote.pause(pauses, problem))
        parts.append(_start(remote, task, at, end).result().body)
        at += len(parts[-1])
    return b"".join(parts)


def _chunk(options: SourceOptions, data: memoryview, begin: int, part: Places) -> Chunk:
    """Headers and queue entries must agree: a queue is derived, the log is the truth."""
    at = part.position - begin
    heads = copied_at(data, at - HEADER_SIZE, _HEAD)
    same = heads["magic"] == MAGIC_ENTRY
    same &= heads["size"] == part.size + HEADER_SIZE
    same &= heads["position"] == part.position - HEADER_SIZE
    same &= heads["record_size"] == part.size
    same &= heads["record_position"] == part.position
    if not same.all():
        bad = int(part.position[np.flatnonzero(~same)[0]])
        raise StoreDamaged("the log has no record where its queue names one", position=bad)
    index, term = heads["index"].astype(np.int64), heads["term"].astype(np.int64)
    chunk = Chunk(data, Found(at, part.size, index, term, len(data)), part.offset)
    if options.verify_crc:
        check_entries(chunk)
    tags = tags_of(options)
    return with_tags(chunk, tags) if tags else chunk


def _ranges(task: Sequence[QueueRange], part: Places) -> list[QueueRange]:
    """Returns the part's messages as ranges of their queues; all wanted messages between the ends
    of a range are in the part."""
    ranges = []
    for number in np.unique(part.queue).tolist():
        offsets = part.offset[part.queue == number]
        ranges.append(QueueRange(task[number].queue, int(offsets[0]), int(offsets[-1]) + 1))
    return ranges
