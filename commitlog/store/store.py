"""MessageStore: the local store by itself: put, get, query.

    with MessageStore("data") as store:
        put = store.put(Message(topic="orders", body=b"one", properties={"KEYS": "k1"}))
        store.get("orders", 0, put.queue_offset)
        store.query("orders", "k1")

One process at a time may have a store open. Calls may come from any thread. A put returns when its
bytes are on disk (SYNC_FLUSH) or written (ASYNC_FLUSH); what it returned can be read at once.

Locks: `_append` (the log's end) and `_derive` (dispatcher, queues, index), never both at once but
in this order, when files go.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from commitlog.config import FlushMode, StoreConfig
from commitlog.dispatch.dispatcher import Listener
from commitlog.errors import StoreDamaged, StoreFailed, StoreUsageError
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.queues.batch_consume_queue import BatchConsumeQueue
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.records import property_names as names
from commitlog.records.batch import INNER_BATCH_FLAGS, inner_batch_properties
from commitlog.records.dispatch_rules import refused
from commitlog.records.ids import decode_offset_id, encode_offset_id
from commitlog.records.message import Host, Message, decode_message, encode_message
from commitlog.records.message_layout import HEAD_SIZE, MAGIC_V1, MAGIC_V2
from commitlog.records.names import check_stored_topic, check_topic
from commitlog.records.properties import decode_properties, encode_properties
from commitlog.records.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NONE
from commitlog.recovery.recovery import DamagedRange
from commitlog.store.housekeeping import Housekeeping
from commitlog.store.store_open import open_store

QUERY_TRIES_MAX = 3  # RocketMQ's, when nothing behind the index could be read
TIME_MAX_MS = (1 << 63) - 1


class PutResult(NamedTuple):
    """Where a message is. `message_id` is the offset id (docs/spec/store.md 6.8)."""

    position: int
    size: int
    queue_offset: int
    store_timestamp_ms: int
    message_id: str


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MessageStore:
    """A store root that this process has open.

    Args:
        path: the root; made when it does not exist.
        config: sizes must be those of the existing files.
        store_host: goes into every record and id.
        listener: called with (topic, queue id, new max offset) after messages became readable, on
            a thread of the store or of a reader; must be quick.
        threads: False runs nothing in the background: puts sync by themselves, reads dispatch,
            `tick()` does the rest. For tests and simulators.

    Raises:
        StoreLocked: the store is open already.
        StoreLayoutError: files that do not belong there, or of another size than configured.
        StoreConfigError, StoreUsageError, StoreFailed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: StoreConfig | None = None,
        *,
        files: FileSystem = OS_FILES,
        store_host: Host = Host("127.0.0.1", 10911),  # noqa: B008 (an immutable value)
        clock_ms: Callable[[], int] = _wall_clock_ms,
        listener: Listener | None = None,
        threads: bool = True,
    ) -> None:
        if not __debug__:
            raise StoreUsageError(
                "the store does not run without its assertions; start Python without -O"
            )
        self.config = config if config is not None else StoreConfig()
        self.config.validate()
        self.path, self.store_host, self._clock_ms = Path(path), store_host, clock_ms
        opened = open_store(self.path, self.config, files, listener=listener, clock_ms=clock_ms)
        self._opened, self._next_offsets = opened, opened.next_offsets
        self._log, self._derived = opened.log, opened.derived
        self._append, self._derive = threading.Lock(), threading.RLock()
        self._house = Housekeeping(
            self._opened, self.config, self._append, self._derive, self._catch_up, clock_ms
        )
        self._closed = False
        if threads:
            self._house.start()

    # ---- putting ---------------------------------------------------------------------------------

    def put(self, message: Message, *, wait: bool = True) -> PutResult:
        """Append one message at the end of its queue.

        Queue offset, position, store time and store host of `message` are filled by the store.
        A DELAY property is stored as it is: to hold it back is a broker's work. With
        `wait=False` a SYNC_FLUSH store does not wait for the disk.

        Raises MessageTooLarge, StoreUsageError; StoreFailed when the disk refuses or is too full:
        then the message is not stored, unless the error says that it may be.
        """
        return self._put([message], wait)[0]

    def put_batch(self, messages: Sequence[Message], *, wait: bool = True) -> list[PutResult]:
        """Append messages as one unit: next to each other in one file, with one store time.

        Transactions and delays are refused, as in RocketMQ. Raises as `put`.
        """
        for message in messages:
            if message.transaction_type != TRANSACTION_NONE or names.DELAY in message.properties:
                raise StoreUsageError(
                    "a batch cannot hold transactional or delayed messages; send them one by one"
                )
        return self._put(messages, wait) if messages else []

    def put_inner_batch(self, message: Message, count: int, *, wait: bool = True) -> PutResult:
        """Append `message`, with a client batch of `count` messages as its body, as one record.

        It takes `count` offsets of its queue (docs/spec/store.md 1.8).
        """
        return self._put([message], wait, inner_count=count)[0]

    def _put(
        self, messages: Sequence[Message], wait: bool, inner_count: int = 0
    ) -> list[PutResult]:
        self._check_open()
        for message in messages:
            _check_message(message)
        self._house.check_space()
        hosted = [replace(message, store_host=self.store_host) for message in messages]
        with self._append:
            offsets = self._take_offsets(hosted, inner_count)
            if inner_count:
                hosted = [_as_inner_batch(hosted[0], inner_count, offsets[0])]
            records = [self._encode(message) for message in hosted]
            positions = self._log.append(records, offsets, self._clock_ms())
            for message, offset in zip(hosted, offsets, strict=True):
                if message.transaction_type in (TRANSACTION_NONE, TRANSACTION_COMMIT):
                    key = message.topic.encode(), message.queue_id
                    self._next_offsets[key] = offset + (inner_count or 1)
            store_ms, end = self._log.store_timestamp_ms, self._log.end
        self._house.appended()
        if wait and self.config.flush_mode is FlushMode.SYNC:
            self._house.flush.wait(end)
        return [
            PutResult(
                position, len(record), offset, store_ms, encode_offset_id(self.store_host, position)
            )
            for position, record, offset in zip(positions, records, offsets, strict=True)
        ]

    def _take_offsets(self, messages: Sequence[Message], inner_count: int) -> list[int]:
        """Next queue offset of each message; 0 without a queue entry (docs/spec/store.md 1.1)."""
        taken: dict[tuple[bytes, int], int] = {}
        offsets: list[int] = []
        for message in messages:
            if message.transaction_type not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
                offsets.append(0)
                continue
            key = message.topic.encode(), message.queue_id
            offset = taken.get(key, self._next_offsets.get(key, 0))
            taken[key] = offset + (inner_count or 1)
            offsets.append(offset)
        return offsets

    def _encode(self, message: Message) -> bytearray:
        return bytearray(
            encode_message(
                message,
                with_record_crc=self.config.record_crc_enabled,
                body_size_max=self.config.body_size_max,
            )
        )

    # ---- reading ---------------------------------------------------------------------------------

    def get(self, topic: str, queue_id: int, offset: int, count_max: int = 32) -> list[Message]:
        """Messages of a queue from `offset` on, at most `count_max`; empty outside its bounds.

        For a BatchCQ topic: the inner batches, from the one that holds `offset` on. Raises
        StoreDamaged when one of them cannot be trusted; it says where.
        """
        self._catch_up()
        with self._derive:
            queue = self._derived.queues.find(topic, queue_id)
            entries = queue.read(offset, count_max) if queue is not None else []
        return [self._pointed_at(topic, queue_id, *entry[:2]) for entry in entries]

    def _pointed_at(self, topic: str, queue_id: int, position: int, size: int) -> Message:
        """The message of a queue's entry. Raises StoreDamaged when it is another queue's."""
        wrong = "outside the log"
        if position < self.max_position:  # below the log's start it has just gone: IndexError
            message = self.get_at(position, size)
            if (message.topic, message.queue_id) == (topic, queue_id):
                return message
            wrong = f"at a message of {message.topic}/{message.queue_id}"
        raise StoreDamaged(
            f"queue {topic}/{queue_id} points {wrong}; remove consumequeue, it is made anew",
            position=position,
        )

    def get_at(self, position: int, size: int = 0) -> Message:
        """The message at a position. Raises IndexError outside the log, StoreDamaged."""
        self._check_open()
        with self._derive:  # files do not go away meanwhile
            record = self._log.record(position, size)
        return decode_message(record, verify_record=self.config.verify_record_crc)

    def get_by_id(self, message_id: str) -> Message | None:
        """The message with that offset id, None when there is none.

        Raises StoreUsageError for anything that is no offset id, StoreDamaged when the message is
        there but broken.
        """
        _, position = decode_offset_id(message_id)
        if not self.min_position <= position < self.max_position:
            return None
        head = self._log.log.pread(HEAD_SIZE, position)
        magic = int.from_bytes(head[4:8], "big", signed=True)
        own = int.from_bytes(head[28:36], "big", signed=True)
        for begin, end, reason in self.damage:
            if begin <= position < end:
                raise StoreDamaged(reason, position=position)
        if magic not in (MAGIC_V1, MAGIC_V2) or own != position:
            return None
        return self.get_at(position)

    def query(
        self,
        topic: str,
        key: str,
        count_max: int | None = None,
        begin_ms: int = 0,
        end_ms: int = TIME_MAX_MS,
    ) -> list[Message]:
        """Messages of `topic` that carry `key` (in KEYS or as unique key), oldest first."""
        self._catch_up()
        count_max = self.config.query_hits_default if count_max is None else count_max
        for _ in range(QUERY_TRIES_MAX):
            with self._derive:
                index = self._derived.index
                hits = (
                    index.query(topic, key, count_max, begin_ms, end_ms)
                    if index is not None
                    else []
                )
            found = [self.get_at(position) for position in sorted(hits) if self._holds(position)]
            if found or not hits:
                return [message for message in found if _has_key(message, topic, key)]
            end_ms = begin_ms  # nothing behind the hits is left; older ones cannot be either
        return []

    def _holds(self, position: int) -> bool:
        return self.min_position <= position < self.max_position

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min offset, max offset) of a queue: the first that can be read, the next to be given."""
        self._catch_up()
        with self._derive:
            queue = self._derived.queues.find(topic, queue_id)
            return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False
    ) -> int:
        """Offset of the first message stored at or after `time_ms`, else the max offset.

        With `upper`: of the last one stored at or before it, else the min offset.
        """
        self._catch_up()
        with self._derive:
            queue = self._derived.queues.find(topic, queue_id)
            if isinstance(queue, ConsumeQueue):
                return queue.offset_by_time(time_ms, self._opened.store_time_of, upper=upper)
            if isinstance(queue, BatchConsumeQueue):
                return queue.offset_by_time(time_ms, upper=upper)
            return 0

    def topics(self) -> dict[str, list[int]]:
        """Topic → its queue ids, of all that ever had a message."""
        self._catch_up()
        with self._derive:
            found: dict[str, list[int]] = {}
            for queue in self._derived.queues:
                found.setdefault(queue.topic, []).append(queue.queue_id)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    @property
    def min_position(self) -> int:
        """Address of the first byte that the log still has; files before it were deleted."""
        return self._log.start

    @property
    def max_position(self) -> int:
        """Address behind the last message."""
        return self._log.end

    @property
    def damage(self) -> list[DamagedRange]:
        """Ranges of the log that were found damaged at opening; they are never served."""
        return self._opened.damage

    # ---- keeping ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything put so far durable. Raises StoreFailed."""
        self._house.flush.flush()

    def tick(self) -> None:
        """Do the background threads' work once: dispatch, sync of derived files, retention."""
        self._house.tick()

    def _catch_up(self) -> None:
        """Dispatch readable bytes: with SYNC_FLUSH the flushed ones, else the written ones."""
        self._check_open()
        with self._derive:
            asynchronous = self.config.flush_mode is FlushMode.ASYNC
            bound = self._log.end if asynchronous else self._house.flush.flushed
            try:
                self._opened.dispatch_to(bound)
            except OSError as error:
                if self._derived.dispatcher.is_failed:
                    self._log.fail(error)
                    raise refused(error) from error
                raise StoreFailed(f"there is no space ({error}); free some space") from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUsageError(f"the store in {self.path} is closed; open it again")

    def close(self) -> None:
        """Sync everything and leave a clean store; idempotent.

        Raises StoreFailed when the disk refuses; the store is then closed like after a crash.
        """
        if self._closed:
            return
        try:
            self._house.stop()
            self._catch_up()
            self._opened.shut_down(self._house.flush.flushed_timestamp_ms)
        except OSError as error:
            raise StoreFailed(
                f"the store in {self.path} could not be closed cleanly ({error}); "
                "open it again, which recovers it"
            ) from error
        finally:
            self._closed = True
            self._opened.release()

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has_key(message: Message, topic: str, key: str) -> bool:
    return message.topic == topic and (key == message.unique_key or key in message.keys)


def _as_inner_batch(message: Message, count: int, first_offset: int) -> Message:
    block = inner_batch_properties(encode_properties(message.properties), count, first_offset)
    return replace(
        message,
        sys_flag=message.sys_flag | INNER_BATCH_FLAGS,
        properties=decode_properties(block),
    )


def _check_message(message: Message) -> None:
    """Topics and queue ids name folders: refuse those that lead out. Raises StoreUsageError."""
    check_topic(message.topic)
    check_stored_topic(message.topic)
    if message.queue_id < 0:
        raise StoreUsageError(f"queue id {message.queue_id} is impossible; give 0 or more")
    if not isinstance(message.body, bytes | bytearray | memoryview):
        raise StoreUsageError(
            f"the body is of type {type(message.body).__name__} and must be bytes; encode it"
        )
