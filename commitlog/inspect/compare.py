"""Queues and index on disk against what the log says (raft_log.md, Annex: facts 3 and 4).

The log and the queue offset in each record are the truth. Java's recovery after a kill loses queue
rows and puts later messages below their offset; a store can also have lost its derived folders.
Both are found here, once per queue, with the first place.

After a crash derived files may lag behind the log, and entries above the commit index are not in
them: then "missing at the end" is a note, not damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commitlog import sys_flag as flags
from commitlog.accel import index_key_hash
from commitlog.batch import inner_batch_of
from commitlog.consume_queue import ConsumeQueue
from commitlog.consume_queues import ConsumeQueues, Queue
from commitlog.delay_levels import DEFAULT_DELAY_LEVELS
from commitlog.dispatcher import SCHEDULE_TOPIC
from commitlog.errors import StoreLayoutError
from commitlog.files import FileSystem
from commitlog.index_service import IndexService
from commitlog.inspect.geometry import DerivedSizes
from commitlog.message_fast import ScannedRecord, scan_record
from commitlog.properties import find_property
from commitlog.queue_entry import is_ext_address
from commitlog.reader import Finding, Item

_READ_AHEAD = 1000


@dataclass(slots=True)
class _QueueCheck:
    """What was seen of one queue."""

    queue: Queue | None
    expected: int = 0
    end: int = 0
    missing: int = 0
    missing_first: int = -1
    wrong: int = 0
    wrong_first: int = -1
    entries_at: int = 0
    entries: list[tuple[int, int, int]] | None = None


class DerivedCompare:
    """`add` every item in log order, then `findings`.

    `clean`: the store was closed, so nothing may be missing. `committed`: highest index that has
    to be in the derived files, None when unknown.
    """

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        sizes: DerivedSizes,
        *,
        clean: bool,
        committed: int | None,
    ) -> None:
        self._root, self._clean, self._committed = root, clean, committed
        self._broken: list[Finding] = []
        self._queues = self._open_queues(files, root, sizes)
        self._index = self._open_index(files, root, sizes)
        self._checks: dict[tuple[bytes, int], _QueueCheck] = {}
        self._index_entries = self._existing_index()
        self._index_next = next(self._index_entries, None)
        self._index_expected = self._index_missing = self._index_extra = 0
        self._index_fault = ""
        self._first_indexed = self._index_next[1] if self._index_next is not None else 0

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

    def _open_index(
        self, files: FileSystem, root: Path, sizes: DerivedSizes
    ) -> IndexService | None:
        try:
            return IndexService(
                files,
                root / "index",
                staging=root / "staging",
                geometry=sizes.index,
                writable=False,
            )
        except StoreLayoutError as error:
            self._broken.append(Finding(str(root / "index"), -1, str(error)))
            return None

    def _existing_index(self) -> Iterator[tuple[int, int]]:
        """(key hash, position) of every entry on disk, oldest first."""
        for file in self._index.files if self._index is not None else ():
            for entry in file.entries():
                yield entry.key_hash, entry.physical_offset

    # ---- one record ------------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Compare what this record should have in the derived files."""
        if item.message is None:
            return
        record = scan_record(item.body)
        required = item.header is None or (
            self._committed is not None and item.header.sequence <= self._committed
        )
        if flags.goes_to_queue(record.sys_flag):
            self._add_to_queue(record, required)
        if flags.goes_to_index(record.sys_flag) and record.physical_offset >= self._first_indexed:
            for key in (record.unique_key, *(record.keys or b"").split(b" ")):
                if key:
                    self._add_key(record, key, required)

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
        if queue is None or offset >= queue.max_offset:
            if required:
                check.missing += 1
                check.missing_first = offset if check.missing == 1 else check.missing_first
        elif offset >= queue.min_offset and not self._matches(check, queue, offset, record):
            check.wrong += 1
            check.wrong_first = offset if check.wrong == 1 else check.wrong_first

    def _matches(
        self, check: _QueueCheck, queue: Queue, offset: int, record: ScannedRecord
    ) -> bool:
        if not isinstance(queue, ConsumeQueue):
            batches = queue.read(offset, 1)
            return bool(batches) and batches[0][:2] == (record.physical_offset, record.size)
        if check.entries is None or not 0 <= offset - check.entries_at < len(check.entries):
            check.entries_at, check.entries = offset, list(queue.read(offset, _READ_AHEAD))
        position, size, code = check.entries[offset - check.entries_at]
        if (position, size) != (record.physical_offset, record.size):
            return False
        return is_ext_address(code) or code == _tags_code(record)

    def _add_key(self, record: ScannedRecord, key: bytes, required: bool) -> None:
        self._index_expected += 1
        while self._index_next is not None and self._index_next[1] < record.physical_offset:
            self._index_extra += 1  # of a message that is damaged now, or never was
            self._index_next = next(self._index_entries, None)
        if self._index_next is None:
            self._index_missing += required
        elif self._index_next == (index_key_hash(record.topic, key), record.physical_offset):
            self._index_next = next(self._index_entries, None)
        elif not self._index_fault:
            self._index_fault = (
                f"it has no entry for a key of the message at {record.physical_offset}"
            )

    # ---- the result ------------------------------------------------------------------------------

    def findings(self, *, log_damaged: bool) -> list[Finding]:
        """One finding per queue, and one for the index, that differ from the log.

        With a damaged log entries for messages that are no longer there are no surprise.
        """
        found = list(self._broken)
        for (topic, queue_id), check in sorted(self._checks.items()):
            kind = "consumequeue" if isinstance(check.queue, ConsumeQueue | None) else "batchcq"
            name = topic.decode("utf-8", "replace")
            path = f"{self._root}/{kind}/{name}/{queue_id}"
            if check.wrong:
                found.append(
                    Finding(
                        path,
                        -1,
                        f"{check.wrong} of {check.expected} entries, the first at queue offset "
                        f"{check.wrong_first}, are not what the log says; rebuild the queue",
                    )
                )
            if check.missing:
                found.append(
                    Finding(
                        path,
                        -1,
                        f"{check.missing} of {check.expected} entries are missing from queue "
                        f"offset {check.missing_first} on; {self._missing_advice()}",
                        self._clean,
                    )
                )
            if check.queue is not None and check.queue.max_offset > check.end and not log_damaged:
                found.append(
                    Finding(
                        path,
                        -1,
                        f"its entries from queue offset {check.end} on point at nothing that the "
                        "log holds; rebuild the queue",
                    )
                )
        found += self._index_findings(log_damaged)
        return found

    def _missing_advice(self) -> str:
        if self._clean:
            return "the store was closed with them, so rebuild it"
        return "usual after a crash, the next start makes them"

    def _index_findings(self, log_damaged: bool) -> list[Finding]:
        path = f"{self._root}/index"
        if (self._index_extra or self._index_next is not None) and not log_damaged:
            self._index_fault = self._index_fault or "it has entries that the log does not explain"
        if self._index_fault:
            return [Finding(path, -1, f"{self._index_fault}; rebuild the index")]
        if self._index_missing and self._index is not None:
            return [
                Finding(
                    path,
                    -1,
                    f"{self._index_missing} of {self._index_expected} keys are missing at its end; "
                    + self._missing_advice(),
                    self._clean,
                )
            ]
        return []

    def close(self) -> None:
        if self._queues is not None:
            self._queues.close()
        if self._index is not None:
            self._index.close()


def _tags_code(record: ScannedRecord) -> int:
    if record.topic == SCHEDULE_TOPIC:
        level = find_property(record.properties, b"DELAY") or b"0"
        if level.isdigit() and int(level) > 0:
            return DEFAULT_DELAY_LEVELS.due_ms(record.store_timestamp_ms, int(level))
    return record.tags_code
