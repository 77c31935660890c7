"""Compares queues and index on disk with the log.

Source: docs/spec/raft_log.md Annex A: facts 3 and 4.

The log and the queue offset in each record are the truth. Java's recovery after a kill loses queue
rows and puts later messages below their offset; a store can also have lost its derived folders.
This module reports both: one finding per queue, with the first offset that is wrong.

After a crash derived files may lag behind the log, and entries above the commit index are not in
them: then "missing at the end" is a note, not damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commitlog.delay_levels import DEFAULT_DELAY_LEVELS
from commitlog.errors import StoreLayoutError
from commitlog.files.system import FileSystem
from commitlog.inspect.geometry import DerivedSizes
from commitlog.inspect.index_compare import IndexCompare, missing_advice
from commitlog.queues.batch_queue_entry import BatchQueueEntry
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.consume_queues import ConsumeQueues, Queue
from commitlog.queues.queue_entry import is_ext_address
from commitlog.records import sys_flag as flags
from commitlog.records.batch import inner_batch_of
from commitlog.records.dispatch_rules import SCHEDULE_TOPIC
from commitlog.records.message_fast import ScannedRecord, scan_record
from commitlog.records.properties import find_property
from commitlog.store.reader import Finding, Item

_READ_AHEAD = 1000
# queues beside the message's own (docs/spec/store.md 3.6), which only RocketMQ writes
_LMQ_PREFIX = b"%LMQ%"


@dataclass(slots=True)
class _QueueCheck:
    """Differences found in one queue: counts, and the offset of the first one."""

    queue: Queue | None
    expected: int = 0
    end: int = 0
    missing: int = 0
    missing_first: int = -1
    wrong: int = 0
    wrong_first: int = -1
    ext_wrong: int = 0
    ext_wrong_first: int = -1
    entries_at: int = 0
    entries: list[tuple[int, int, int]] | None = None


class DerivedCompare:
    """`add` every item in log order, then `findings`.

    `log_begin`: lowest address of the log. `clean`: the store was closed, so every entry must be
    there. `committed`: highest index that must be in the derived files, None when unknown.
    """

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        sizes: DerivedSizes,
        *,
        log_begin: int,
        clean: bool,
        committed: int | None,
    ) -> None:
        self._root, self._clean, self._committed = root, clean, committed
        self._log_begin, self._with_ext = log_begin, bool(files.list(root / "consumequeue_ext"))
        self._broken: list[Finding] = []
        self._queues = self._open_queues(files, root, sizes)
        self._index = IndexCompare(files, root / "index", sizes.index, clean=clean)
        self._checks: dict[tuple[bytes, int], _QueueCheck] = {}

    def _open_queues(
        self, files: FileSystem, root: Path, sizes: DerivedSizes
    ) -> ConsumeQueues | None:
        try:
            queues = ConsumeQueues(
                files,
                root,
                staging=root / "staging",
                queue_file_size=sizes.queue,
                batch_file_size=sizes.batch,
                ext_file_size=sizes.ext,
                writable=False,
            )
        except StoreLayoutError as error:
            self._broken.append(Finding(str(root), -1, str(error)))
            return None
        for queue in queues:
            queue.recover()
        return queues

    # ---- one record ------------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Compare this record's queue entry and index keys with the derived files."""
        if item.message is None:
            return
        record = scan_record(item.body)
        required = item.header is None or (
            self._committed is not None and item.header.sequence <= self._committed
        )
        if flags.goes_to_queue(record.sys_flag):
            self._add_to_queue(record, required)
        if flags.goes_to_index(record.sys_flag):
            for key in (record.unique_key, *(record.keys or b"").split(b" ")):
                if key:
                    self._index.add(record, key, required=required)

    def _add_to_queue(self, record: ScannedRecord, required: bool) -> None:
        key = record.topic, record.queue_id
        check = self._checks.get(key)
        if check is None:
            name = record.topic.decode("utf-8", "surrogateescape")
            found = self._queues.find(name, record.queue_id) if self._queues is not None else None
            check = self._checks[key] = _QueueCheck(found)
        inner = inner_batch_of(record.properties) if record.sys_flag & flags.INNER_BATCH else None
        offset = record.queue_offset if inner is None else inner[0]
        check.expected += 1
        check.end = max(check.end, offset + (1 if inner is None else inner[1]))
        queue = check.queue
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            if required:
                check.missing += 1
                check.missing_first = offset if check.missing == 1 else check.missing_first
        elif not self._matches(check, queue, offset, record):
            check.wrong += 1
            check.wrong_first = offset if check.wrong == 1 else check.wrong_first

    def _matches(
        self, check: _QueueCheck, queue: Queue, offset: int, record: ScannedRecord
    ) -> bool:
        if not isinstance(queue, ConsumeQueue):
            batches = queue.read(offset, 1)
            inner = inner_batch_of(record.properties)
            if inner is None:
                return False
            place = record.physical_offset, record.size
            return batches == [
                BatchQueueEntry(*place, record.tags_code, record.store_timestamp_ms, *inner)
            ]
        if check.entries is None or not 0 <= offset - check.entries_at < len(check.entries):
            check.entries_at, check.entries = offset, list(queue.read(offset, _READ_AHEAD))
        position, size, code = check.entries[offset - check.entries_at]
        if (position, size) != (record.physical_offset, record.size):
            return False
        if self._with_ext and is_ext_address(code):
            self._check_ext(check, offset, code, record)
            return True
        return code == _tags_code(record)

    def _check_ext(
        self, check: _QueueCheck, offset: int, address: int, record: ScannedRecord
    ) -> None:
        """Compare the unit's tags code and store time with the message's, and no filter bits."""
        assert self._queues is not None
        unit = self._queues.ext(record.topic, record.queue_id).get(address)
        wanted = _tags_code(record), record.store_timestamp_ms
        if unit is None or unit[:2] != wanted:
            check.ext_wrong += 1
            check.ext_wrong_first = offset if check.ext_wrong == 1 else check.ext_wrong_first

    # ---- the result ------------------------------------------------------------------------------

    def findings(self, *, log_damaged: bool) -> list[Finding]:
        """One finding per queue, and one for the index, that differ from the log.

        If the log is damaged, entries whose messages it no longer holds are not reported.
        """
        found = list(self._broken)
        for (topic, queue_id), check in sorted(self._checks.items()):
            found += self._queue_findings(topic, queue_id, check, log_damaged=log_damaged)
        if not log_damaged:
            found += self._unknown_queues()
        return found + self._index.findings(log_damaged=log_damaged)

    def _queue_findings(
        self, topic: bytes, queue_id: int, check: _QueueCheck, *, log_damaged: bool
    ) -> Iterator[Finding]:
        plain = isinstance(check.queue, ConsumeQueue | None)
        name = f"{topic.decode('utf-8', 'replace')}/{queue_id}"
        path = f"{self._root}/{'consumequeue' if plain else 'batchconsumequeue'}/{name}"
        if check.wrong:
            yield Finding(
                path,
                -1,
                f"{check.wrong} of {check.expected} entries, the first at queue offset "
                f"{check.wrong_first}, are not what the log says; rebuild the queue",
            )
        if check.missing:
            yield Finding(
                path,
                -1,
                f"{check.missing} of {check.expected} entries are missing from queue "
                f"offset {check.missing_first} on; {missing_advice(clean=self._clean)}",
                self._clean,
            )
        if check.ext_wrong:
            yield Finding(
                f"{self._root}/consumequeue_ext/{name}",
                -1,
                f"{check.ext_wrong} units, the first that of queue offset "
                f"{check.ext_wrong_first}, are not what the log says; rebuild the queue",
                self._clean,
            )
        if check.queue is not None and check.queue.max_offset > check.end and not log_damaged:
            yield Finding(
                path,
                -1,
                f"its entries from queue offset {check.end} on point at nothing that the "
                "log holds; rebuild the queue",
            )

    def _unknown_queues(self) -> Iterator[Finding]:
        """Findings for queues that point into the log although it holds no message of theirs."""
        for queue in self._queues or ():
            topic = queue.topic.encode("utf-8", "surrogateescape")
            if (topic, queue.queue_id) in self._checks or topic.startswith(_LMQ_PREFIX):
                continue
            if queue.end_position > self._log_begin:
                yield Finding(
                    str(queue.log.folder),
                    -1,
                    "its entries point at nothing that the log holds; remove the queue",
                )

    def close(self) -> None:
        """Close queues and index."""
        if self._queues is not None:
            self._queues.close()
        self._index.close()


def _tags_code(record: ScannedRecord) -> int:
    if record.topic == SCHEDULE_TOPIC:
        level = find_property(record.properties, b"DELAY") or b"0"
        if level.isdigit() and int(level) > 0:
            return DEFAULT_DELAY_LEVELS.due_ms(record.store_timestamp_ms, int(level))
    return record.tags_code
