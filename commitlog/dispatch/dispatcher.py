"""Committed bytes → queues and key index; forward only, whole batches (docs/spec/store.md 3.6).

    dispatch(position, parts)       parts: whole records from `position` on, one part per file

      stretches with columns ─┬─ per queue ──► entries, one pwrite per queue
      others: one pass over   ├─ index keys ─► hashed together, one pwrite per index file
      the bytes ──────────────┴─ listener(topic, queue id, new max offset), once per queue touched

The bytes are records of a plain CommitLog, or entries of the replicated log (48-byte headers, the
message behind each). They were verified by the log; here only their shape is looked at. Usual
messages take the short way through the loop: V1, IPv4 hosts, no transaction, the next offset of a
known queue. Everything else goes through `_unusual`, which knows every rule. A caller that has read
the bytes as columns (columns.py) may give these, too: then usual messages need no loop at all.

Repeats are harmless: queues skip what they have (docs/spec/store.md 3.2), the index skips positions
below its end. So bytes may come again after a crash, and when the disk was full: the index gets all
keys of a batch or none, and queues are cut back to `position`: a mark never vouches for more.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

from commitlog.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from commitlog.dispatch.accel_columns import UNUSUAL_FLAGS
from commitlog.dispatch.columns import Columns, Stretch
from commitlog.dispatch.index_batch import IndexBatch
from commitlog.errors import StoreDamaged, StoreFailed
from commitlog.files.system import Buffer, is_out_of_space
from commitlog.index.index_service import IndexService
from commitlog.queues.batch_queue_entry import BatchQueueEntry
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.queue_entry import ENTRY, ENTRY_SIZE
from commitlog.queues.queue_ext_unit import QueueExtUnit
from commitlog.records import sys_flag as flags
from commitlog.records.batch import inner_batch_of
from commitlog.records.dispatch_rules import SCHEDULE_TOPIC, check_record_place, queue_code, refused
from commitlog.records.message_fast import ScannedRecord, scan_record, tags_code_of
from commitlog.records.message_layout import HEAD_SIZE, MAGIC_BLANK, MAGIC_V1
from commitlog.records.record import HEADER_SIZE as ENTRY_HEADER_SIZE
from commitlog.records.record import MAGIC_BLANK as ENTRY_BLANK
from commitlog.records.record import MAGIC_ENTRY

Listener = Callable[[str, int, int], None]
FilterBitmap = Callable[[ScannedRecord], bytes | None]
PassedOver = Callable[[int, str], None]

# size, magic, queue id, queue offset, position, sysFlag, store timestamp, body size
_MESSAGE = struct.Struct(">ii4xi4xqqi16xq20xi")
# the same behind an entry header, of which magic and size are read
_ENTRY = struct.Struct(">ii40xii4xi4xqqi16xq20xi")
_TWO_INTS = struct.Struct(">ii")
_find_wanted = re.compile(rb"\x02(TAGS|KEYS|UNIQ_KEY)\x01([^\x02]+)").findall

assert _MESSAGE.size == HEAD_SIZE
assert _ENTRY.size == ENTRY_HEADER_SIZE + HEAD_SIZE


class Dispatcher:
    """Feeds queues and index; owns the pointer `position` up to which that is done.

    Args:
        queues, index: where the results go; without an index only queues are fed.
        entries: True when the bytes are entries of the replicated log, False for plain records.
        position: where dispatching goes on.
        listener: called after each batch for every queue that grew, on the caller's thread.
        delay_levels: due times of the schedule topic.
        filter_bitmap: makes the bits for a queue's extension (docs/spec/store.md 7.5); None turns
            the extension off.
        batch_topic: is this topic's queue.type BatchCQ? By default the record itself says so.
        passed_over: told of the address of each entry that holds no message of a possible queue,
            and why; it is passed over. None: such bytes are damage, and StoreDamaged is raised.

    Not thread-safe: one caller at a time.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        index: IndexService | None,
        *,
        entries: bool,
        position: int = 0,
        listener: Listener | None = None,
        delay_levels: DelayLevels = DEFAULT_DELAY_LEVELS,
        filter_bitmap: FilterBitmap | None = None,
        batch_topic: Callable[[str], bool] | None = None,
        passed_over: PassedOver | None = None,
    ) -> None:
        self._passed_over = passed_over
        self._queues, self._index, self._entries = queues, index, entries
        self.position = position
        self.store_timestamp_ms = 0
        self._listener, self._delay_levels = listener, delay_levels
        self._filter_bitmap, self._batch_topic = filter_bitmap, batch_topic
        self._touched: list[ConsumeQueue] = []  # queues with a run of this batch
        self._grown: dict[tuple[str, int], int] = {}  # (topic, queue id) → new max offset
        self._batch = IndexBatch()
        self._failed: StoreFailed | None = None

    def dispatch(
        self,
        position: int,
        parts: Sequence[Buffer],
        *,
        partial: bool = False,
        stretches: Sequence[Stretch] = (),
    ) -> None:
        """Dispatch the whole records in `parts`, which begin at address `position`.

        `position` must be where the last call ended (`self.position`). With `partial` the last
        record may be cut off; it is left for the next call. `stretches` are what
        `accel_columns.read_stretches` made of the only part. Raises StoreDamaged when the bytes
        are no records; then `self.position` has not moved and the right bytes may be given. Raises
        OSError when the disk refuses. One that is full (`is_out_of_space`) may be tried again; else
        StoreFailed is raised from then on: the files must be opened and recovered again.
        """
        if self._failed is not None:
            raise self._failed
        assert position == self.position, f"dispatch goes on at {self.position}, not {position}"
        try:
            if stretches:
                assert len(parts) == 1, "stretches are of one piece"
                end = self._take_stretches(parts[0], position, stretches)
            else:
                end = self._take_parts(parts, position, partial)
            for queue in self._touched:
                self._write_run(queue)
            if self._index is not None and self._batch:
                self._index.put(*self._batch.columns())
        except OSError as error:
            if is_out_of_space(error):
                self._cut_back()
            else:
                self._failed = refused(error)
            raise
        except StoreFailed as error:
            self._failed = error
            raise error.__cause__ or error from None
        finally:
            for queue in self._touched:
                queue.run.clear()
            self._touched.clear()
            self._batch.clear()
        self.position = end
        grown, self._grown = self._grown, {}
        if self._listener is not None:
            for (topic, queue_id), offset in grown.items():
                self._listener(topic, queue_id, offset)

    @property
    def is_failed(self) -> bool:
        """True after a failed write: dispatch goes on only after the files were recovered."""
        return self._failed is not None

    def _cut_back(self) -> None:
        """Cut queues back to before the batch that met a full disk; a cut needs no space."""
        grown, self._grown = self._grown, {}
        try:
            for topic, queue_id in grown:
                queue = self._queues.find(topic, queue_id)
                if queue is not None:
                    queue.cut(self.position)
        except OSError as error:
            self._failed = refused(error)
            raise

    def _take_parts(self, parts: Sequence[Buffer], position: int, partial: bool) -> int:
        end = position
        for part in parts:
            data = part if isinstance(part, bytes) else bytes(part)
            done = self._scan(data, end, partial)
            end += done
            if done != len(data):
                assert part is parts[-1], "records are cut off within the parts"
                break
        return end

    # ---- columns ---------------------------------------------------------------------------------

    def _take_stretches(self, data: Buffer, position: int, stretches: Sequence[Stretch]) -> int:
        end = position
        for begin, stop, columns in stretches:
            assert begin == end - position, "stretches follow each other"
            if columns is not None and self._take_columns(columns):
                end = position + stop
            else:
                end += self._scan(bytes(data[begin:stop]), end, partial=False)
        return end

    def _take_columns(self, columns: Columns) -> bool:
        """Take a whole stretch. False, before any change, when it does not continue its queues.

        What is written stays when a later stretch turns out to be damaged: a repeat skips it.
        """
        if self._filter_bitmap is not None:
            return False
        queues: list[ConsumeQueue] = []
        for rows in columns.queues:
            queue = self._queues.by_topic.get(rows.topic, {}).get(rows.queue_id)
            if (
                queue is None
                or not rows.is_dense
                or rows.first_offset != queue.max_offset + len(queue.run)
                or rows.first_position < queue.end_position
            ):
                return False
            queues.append(queue)
        for queue, rows in zip(queues, columns.queues, strict=True):
            self._write_run(queue)
            entries = columns.entries[rows.entries_at : rows.entries_at + rows.rows * ENTRY_SIZE]
            queue.append_run(entries, rows.rows, rows.end_position)
            self._grown[queue.topic, queue.queue_id] = queue.max_offset
        self._batch.add_columns(*columns.keys_from(self._index_from()))
        self.store_timestamp_ms = columns.last_ms
        return True

    # ---- one pass --------------------------------------------------------------------------------

    def _scan(self, data: bytes, position: int, partial: bool) -> int:
        """Read every whole record of `data`; its first byte has the address `position`.

        Returns how many bytes they take: all of them unless `partial` (more when a blank reaches
        beyond the data). Longer than a screen on purpose: a call for each message costs too much.
        """
        entries, usual_bitmap = self._entries, self._filter_bitmap is None
        unpack_entry, unpack_message = _ENTRY.unpack_from, _MESSAGE.unpack_from
        by_topic, touched, pack = self._queues.by_topic, self._touched, ENTRY.pack
        add_key, index_from = self._batch.add, self._index_from()
        at, end, last_ms = 0, len(data), self.store_timestamp_ms
        last_start = end - (_ENTRY.size if entries else _MESSAGE.size)
        while at < end:
            if at > last_start:
                at, begin = self._blank(data, at, position, partial), at
                if at == begin:
                    break
                continue
            begin = at
            if entries:
                magic, step, size, kind, queue_id, offset, address, flag, ms, body_size = (
                    unpack_entry(data, at)
                )
                if magic != MAGIC_ENTRY:
                    at = self._blank(data, at, position, partial)
                    continue
                start, at = at + ENTRY_HEADER_SIZE, at + step
            else:
                size, kind, queue_id, offset, address, flag, ms, body_size = unpack_message(
                    data, at
                )
                if kind == MAGIC_BLANK:
                    at = self._blank(data, at, position, partial)
                    continue
                start, at = at, at + size
            if at > end and partial and start < at:
                at = begin
                break
            topic_at = start + HEAD_SIZE + body_size
            if (
                kind != MAGIC_V1
                or flag & UNUSUAL_FLAGS
                or not start + HEAD_SIZE <= topic_at < at
                or not start < at == start + size <= end
            ):
                last_ms = self._unusual(data, start, position, at)
                continue
            block_at = topic_at + data[topic_at] + 3
            topic = data[topic_at + 1 : block_at - 2]
            queue = by_topic[topic].get(queue_id) if topic in by_topic else None
            if (
                queue is None
                or address != position + start
                or address < queue.end_position
                or offset - queue.max_offset != len(queue.run)
                or topic == SCHEDULE_TOPIC
                or not usual_bitmap
            ):
                last_ms = self._unusual(data, start, position, at)
                continue
            last_ms, code, unique_key, more_keys = ms, 0, b"", b""
            for name, value in _find_wanted(b"\x02" + data[block_at : start + size]):
                if name == b"TAGS":
                    code = tags_code_of(value)
                elif name == b"KEYS":
                    more_keys = value
                else:
                    unique_key = value
            if not queue.run:
                touched.append(queue)
            queue.run.append(pack(address, size, code))
            queue.run_end = address + size
            if address >= index_from:
                if unique_key:
                    add_key(topic, unique_key, address, ms)
                if more_keys:
                    for key in more_keys.split(b" "):
                        if key:
                            add_key(topic, key, address, ms)
        self.store_timestamp_ms = last_ms
        return at

    def _blank(self, data: bytes, at: int, position: int, partial: bool) -> int:
        """The end of a file at `at`: return where reading goes on. Raises StoreDamaged.

        With `partial`, what is too short to be told stays for the next call (`at` is returned).
        """
        if len(data) - at >= _TWO_INTS.size:
            first: int
            second: int
            first, second = _TWO_INTS.unpack_from(data, at)
            if self._entries and first == ENTRY_BLANK and second >= _TWO_INTS.size:
                return at + second
            if first == MAGIC_ENTRY and self._passed_over is not None and at + second <= len(data):
                self._passed_over(position + at + ENTRY_HEADER_SIZE, "the record is cut off")
                return at + second
            if not self._entries and second == MAGIC_BLANK and first >= _TWO_INTS.size:
                return at + first
        if partial and len(data) - at < _ENTRY.size:
            return at
        raise StoreDamaged("no record begins here", position=position + at)

    def _index_from(self) -> int:
        """Lowest position that is not in the index yet."""
        if self._index is None:
            return 1 << 63
        return self._index.end_position + 1 if self._index.entry_count else 0

    def _write_run(self, queue: ConsumeQueue) -> None:
        if queue.run:
            queue.append_run(b"".join(queue.run), len(queue.run), queue.run_end)
            queue.run.clear()
            self._grown[queue.topic, queue.queue_id] = queue.max_offset

    # ---- every rule ------------------------------------------------------------------------------

    def _unusual(self, data: bytes, start: int, position: int, following: int) -> int:
        """One message at `start`, by docs/spec/store.md 3.2, 3.4-3.6; return its store time."""
        try:
            record = scan_record(data, start)
            strict = self._passed_over is not None
            check_record_place(record, position + start, following - start, queue_too=strict)
        except StoreDamaged as error:
            if self._passed_over is not None:
                self._passed_over(position + start, error.reason)
                return self.store_timestamp_ms
            raise StoreDamaged(error.reason, position=position + start) from error
        if flags.goes_to_queue(record.sys_flag):
            inner = (
                inner_batch_of(record.properties) if record.sys_flag & flags.INNER_BATCH else None
            )
            if self._is_batch(record, inner):
                if inner is not None:
                    self._to_batch_queue(record, *inner)
            else:
                self._to_queue(record)
        if flags.goes_to_index(record.sys_flag) and record.physical_offset >= self._index_from():
            place = record.physical_offset, record.store_timestamp_ms
            for key in (record.unique_key, *(record.keys or b"").split(b" ")):
                if key:
                    self._batch.add(record.topic, key, *place)
        return record.store_timestamp_ms

    def _is_batch(self, record: ScannedRecord, inner: tuple[int, int] | None) -> bool:
        if self._batch_topic is not None:
            return self._batch_topic(record.topic.decode("utf-8", "replace"))
        return inner is not None

    def _to_queue(self, record: ScannedRecord) -> None:
        queue = self._queues.queue(record.topic, record.queue_id)
        self._write_run(queue)
        code = queue_code(record, self._delay_levels)
        if (
            self._filter_bitmap is not None
            and record.topic != SCHEDULE_TOPIC  # a due time must not be lost with the extension
            and self._is_new(queue, record)
        ):
            bitmap = self._filter_bitmap(record) or b""
            unit = QueueExtUnit(code, record.store_timestamp_ms, bitmap)
            code = self._queues.ext(record.topic, record.queue_id).put(unit)
        if queue.append(record.queue_offset, record.physical_offset, record.size, code):
            self._grown[queue.topic, queue.queue_id] = queue.max_offset

    def _is_new(self, queue: ConsumeQueue, record: ScannedRecord) -> bool:
        return record.physical_offset + record.size > queue.end_position

    def _to_batch_queue(self, record: ScannedRecord, base: int, count: int) -> None:
        queue = self._queues.batch_queue(record.topic, record.queue_id)
        entry = BatchQueueEntry(
            record.physical_offset,
            record.size,
            record.tags_code,
            record.store_timestamp_ms,
            base,
            count,
        )
        if queue.append(entry):
            self._grown[queue.topic, queue.queue_id] = queue.max_offset
