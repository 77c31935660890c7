"""Messages of one queue as dispatched so far, scanned by tags or an expression; its bounds."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.read.wanted import Wanted
from cluster.core.filter_bits import FilterBits
from cluster.protocol.headers import PullRequest
from commitlog.errors import StoreError
from commitlog.queues.queue_entry import ENTRY, ENTRY_SIZE, is_ext_address
from commitlog.records.java import signed

_PLACES = struct.Struct(">qi8x")  # of an entry, without its tags code

assert _PLACES.size == ENTRY_SIZE


class Found(NamedTuple):
    """The result of a scan: records, and the first offset not looked at."""

    records: list[bytes | memoryview]
    next_offset: int


class QueueReader:
    """The only way to the messages of queues. `messages` and `bytes` count the records read."""

    def __init__(
        self,
        live: LiveSettings,
        derived: DerivedStore,
        reader: RecordReader,
        *,
        filters: FilterBits | None = None,
        count_read: Callable[[str, str, int, int], None] = lambda *_: None,
    ) -> None:
        """`count_read(group, topic, messages, bytes)` is called for each scan with messages."""
        self._live, self._derived, self._reader = live, derived, reader
        self._filters, self._count_read = filters, count_read
        self.messages = self.bytes = 0

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset of a queue, as dispatched."""
        queue = self._derived.queue(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def scan(self, request: PullRequest, offset: int, wanted_by: Wanted) -> Found | None:
        """Messages from `offset` on; None when the queue has none there."""
        queue = self._derived.queue(request.topic, request.queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        config = self._live.now
        count_max = max(1, min(request.max_msg_nums, config.pull_count_max))
        if wanted_by.expression is not None:
            raw = queue.read_raw(offset, config.pull_scan_max)
            return self._matching(request, offset, raw, count_max, wanted_by)
        hashes = wanted_by.hashes
        if hashes is None:
            return self._all_from(request, offset, queue.read_raw(offset, count_max))
        raw = queue.read_raw(offset, config.pull_scan_max)
        wanted: list[tuple[int, int]] = []
        offsets: list[int] = []
        size = scanned = 0
        bytes_max = self._bytes_max(request)
        for position, entry_size, tags_code in ENTRY.iter_unpack(raw):
            if is_ext_address(tags_code):
                tags_code = self._tags_of(request, tags_code, hashes)
            if signed(tags_code) in hashes:
                if wanted and (size + entry_size > bytes_max or len(wanted) == count_max):
                    break
                wanted.append((position, entry_size))
                offsets.append(offset + scanned)
                size += entry_size
            scanned += 1
        records = self._reader.records(wanted) if wanted else []
        self._count(request, records)
        if len(records) < len(wanted):  # damage behind the last one: the next pull meets it
            return Found(records, offsets[len(records)])
        return Found(records, offset + scanned)

    def _all_from(self, request: PullRequest, offset: int, raw: bytes) -> Found:
        """The messages that `raw` names, with any tags, up to the limit of bytes."""
        wanted = list(_PLACES.iter_unpack(raw))
        ends = list(accumulate([size for _, size in wanted]))
        del wanted[max(bisect_right(ends, self._bytes_max(request)), 1) :]
        records = self._reader.records(wanted) if wanted else []
        self._count(request, records)
        return Found(records, offset + len(records))  # fewer: the next pull meets the damage

    def _bytes_max(self, request: PullRequest) -> int:
        """The client's limit (maxMsgBytes), at most the broker's; without one, the broker's."""
        most, asked = self._live.now.pull_bytes_max, request.max_msg_bytes or 0
        return min(most, asked) if asked > 0 else most

    def _tags_of(self, request: PullRequest, address: int, hashes: frozenset[int]) -> int:
        """The extension's tags code; a lost one counts as a match: clients compare tags again."""
        unit = self._derived.ext_unit(request.topic, request.queue_id, address)
        return next(iter(hashes), 0) if unit is None else unit.tags_code

    def _matching(
        self, request: PullRequest, offset: int, raw: bytes, count_max: int, wanted_by: Wanted
    ) -> Found:
        """Records that an expression takes: read one by one, since only they say so."""
        found: list[bytes | memoryview] = []
        size = scanned = 0
        bytes_max = self._bytes_max(request)
        for position, entry_size, tags_code in ENTRY.iter_unpack(raw):
            if found and size + entry_size > bytes_max:
                break
            if len(found) == count_max:
                break
            if not self._may_match(request, tags_code, wanted_by):
                scanned += 1
                continue
            try:
                (record,) = self._reader.records([(position, entry_size)])
            except StoreError:
                if not scanned:
                    raise
                break  # damage behind the last one: the next pull meets it
            if wanted_by.takes(record):
                found.append(record)
                size += entry_size
            scanned += 1
        self._count(request, found)
        return Found(found, offset + scanned)

    def _may_match(self, request: PullRequest, tags_code: int, wanted_by: Wanted) -> bool:
        """False: the queue's extension says that the expression does not take this message."""
        if self._filters is None or not is_ext_address(tags_code):
            return True
        unit = self._derived.ext_unit(request.topic, request.queue_id, tags_code)
        group, topic = request.consumer_group, request.topic
        return self._filters.may_match(group, topic, wanted_by.text, unit)

    def _count(self, request: PullRequest, records: list[bytes | memoryview]) -> None:
        if records:
            size = sum(map(len, records))
            self.messages += len(records)
            self.bytes += size
            self._count_read(request.consumer_group, request.topic, len(records), size)
