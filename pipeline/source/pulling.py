"""Reads messages of one queue by pull requests (11), which every broker answers, with filters if
wanted.

    offset ─► 0 found: records and where to go on      19 nothing there yet: asked again
           ─► 20 nothing matched up to …               21 gone: data loss

The broker verified what it sends. Small answers are put together, so that batches are worth their
overhead.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cluster.errors import ServerError
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import (
    PULL_FLAG_SUBSCRIPTION,
    PullRequest,
    PullResponse,
    decode,
    encode,
)
from commitlog.errors import StoreDamaged
from commitlog.queues.tag_filter import ALL
from pipeline.frames.batch import BYTES_MAX, ROWS_MAX
from pipeline.frames.fields import Int64
from pipeline.frames.head import Heads
from pipeline.frames.locate import search
from pipeline.source.bounds import lost, said
from pipeline.source.offsets import QueueRange
from pipeline.source.options import SourceOptions
from pipeline.source.records import Chunk, check_messages, with_tags
from pipeline.source.remote import Remote

SAMPLE_COUNT = 32  # records looked at to estimate sizes
COUNT_MAX = 10_000  # asked for in one pull; brokers give at most what their settings say
_RESULTS = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    }
)
#: Brokers want the name of a group; one that nobody else has leaves nothing behind.
_GROUP = f"spark-{secrets.token_hex(8)}"


def pulled(remote: Remote, options: SourceOptions, wanted: QueueRange) -> Iterator[Chunk]:
    """Exactly the messages of the range that match. Raises SourceError, DataLoss, StoreDamaged."""
    tags = tags_of(options)
    parts: list[bytes] = []
    numbers: list[Int64] = []
    rows = size = 0
    for body, offsets in _answers(remote, options, wanted):
        parts.append(body)
        numbers.append(offsets)
        rows, size = rows + len(offsets), size + len(body)
        if rows >= ROWS_MAX or size >= BYTES_MAX:
            yield _chunk(options, parts, numbers, tags)
            parts, numbers, rows, size = [], [], 0, 0
    if parts:
        yield _chunk(options, parts, numbers, tags)


def tags_of(options: SourceOptions) -> frozenset[str]:
    """The tags wanted; none for everything, and for a filter of another kind."""
    if options.expression_type != "TAG" or options.expression == ALL:
        return frozenset()
    return frozenset(part.strip() for part in options.expression.split("||") if part.strip())


def _chunk(
    options: SourceOptions, parts: list[bytes], numbers: list[Int64], tags: frozenset[str]
) -> Chunk:
    data = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
    chunk = Chunk(data, search(data, entries=False), np.concatenate(numbers))
    if len(chunk.found) != len(chunk.offsets):
        raise StoreDamaged("a pulled answer has records that do not follow each other")
    if options.verify_crc:
        check_messages(chunk)
    return with_tags(chunk, tags) if tags else chunk


def _answers(
    remote: Remote, options: SourceOptions, wanted: QueueRange
) -> Iterator[tuple[bytes, Int64]]:
    """Bodies of answers and the queue offsets of their records, cut to the range."""
    filtered = options.expression != ALL
    offset, pauses = wanted.start, 0
    while offset < wanted.end:
        answer = _pull(remote, options, wanted, offset)
        place = decode(PullResponse, answer.ext)
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            offset = _moved(options, wanted, offset, place)
            continue
        if answer.code == ResponseCode.PULL_NOT_FOUND or place.next_begin_offset <= offset:
            pauses += 1
            _wait(remote, options, wanted, offset, pauses)
            continue
        pauses = 0
        if answer.code == ResponseCode.SUCCESS:
            body, offsets = _within(answer.body, offset, wanted.end, filtered=filtered)
            if len(offsets):
                yield body, offsets
        offset = place.next_begin_offset


def _within(body: bytes, offset: int, end: int, *, filtered: bool) -> tuple[bytes, Int64]:
    """The records of an answer that lie below `end`."""
    data = memoryview(body)
    found = search(data, entries=False)
    if found.end != len(data):
        raise StoreDamaged("a pulled answer ends with something that is no record")
    offsets: Int64 = offset + np.arange(len(found), dtype=np.int64)
    if filtered:  # what matched is not told otherwise
        offsets = Heads(data, found.at, found.size).queue_offset
    count = int(np.searchsorted(offsets, end))
    if count == len(offsets):
        return body, offsets
    return body[: int(found.at[count])], offsets[:count]


def _pull(
    remote: Remote,
    options: SourceOptions,
    wanted: QueueRange,
    offset: int,
    *,
    leader: bool = False,
) -> Frame:
    topic, broker, queue_id = wanted.queue
    request = PullRequest(
        options.group or _GROUP,
        topic,
        queue_id,
        offset,
        min(COUNT_MAX, wanted.end - offset),
        PULL_FLAG_SUBSCRIPTION,
        0,
        0,
        0,
        options.expression,
        options.expression_type,
        options.fetch_bytes,
        bname=broker,
    )
    code = RequestCode.PULL_MESSAGE
    return remote.run(
        remote.ask(broker, topic, code, encode(request), results=_RESULTS, leader=leader)
    )


def _moved(options: SourceOptions, wanted: QueueRange, offset: int, place: PullResponse) -> int:
    """The offset does not exist at the leader: where to go on, if gaps are all right."""
    if place.min_offset > offset:
        to = min(place.min_offset, wanted.end)
        lost(options, f"{said(wanted.queue)} begins at {place.min_offset}: {offset} to {to} gone")
        return to
    lost(options, f"{said(wanted.queue)} ends at {place.max_offset}, below {offset}")
    return wanted.end


def _wait(
    remote: Remote, options: SourceOptions, wanted: QueueRange, offset: int, pauses: int
) -> None:
    """Pauses before the next pull: messages that were committed when the range was planned are not
    on this replica yet."""
    remote.run(
        remote.pause(
            pauses, ServerError(f"{said(wanted.queue)} has nothing at offset {offset} yet")
        )
    )


def first_bytes(remote: Remote, options: SourceOptions, wanted: QueueRange) -> int:
    """Mean bytes of the first records of a range, at least 1. Raises ClusterError, SourceError."""
    everything = replace(options, expression=ALL, expression_type="TAG")
    some = wanted._replace(end=wanted.start + SAMPLE_COUNT)
    answer = _pull(remote, everything, some, wanted.start, leader=True)  # one answer for everyone
    if answer.code != ResponseCode.SUCCESS:
        return 1
    body, offsets = _within(answer.body, wanted.start, wanted.end, filtered=False)
    return max(len(body) // max(len(offsets), 1), 1)
