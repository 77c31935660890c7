"""Raw ranges: 31001 and 31003, for readers that parse many records at once (Spark, tools).

    31003  topic, queueId, offset, count ─► entries of the consume queue, 20 bytes each, as they are
           on disk (docs/spec/store.md 3.1): position, size, tags code
    31001  position, size                ─► bytes of the log from that address on

Any replica answers, from what it has dispatched and never above it: what is committed does not
change, so that it does not matter who answers. An answer may be shorter than asked for, down to
nothing on a replica that lags. The bytes are not verified by the broker; every entry carries its
checksum. With access control on, both need an admin account (docs/decisions.md, "Names").
"""

from __future__ import annotations

from dataclasses import dataclass

LOG_RANGE_BYTES_MAX = 8 << 20  # of one answer: half of the largest frame
QUEUE_RANGE_COUNT_MAX = 200_000  # entries of one answer, 4 MB


@dataclass(frozen=True, slots=True)
class LogRangeRequest:
    """31001."""

    position: int
    size: int
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class LogRangeResponse:
    """Response to 31001: addresses between which this replica can answer now."""

    first_position: int
    end_position: int


@dataclass(frozen=True, slots=True)
class QueueRangeRequest:
    """31003."""

    topic: str
    queue_id: int
    offset: int
    count: int
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class QueueRangeResponse:
    """Response to 31003: first and next offset of the queue here."""

    min_offset: int
    max_offset: int
