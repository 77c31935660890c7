"""All queues of a store: consumequeue/, consumequeue_ext/, batchconsumequeue/.

Source: docs/spec/store.md 0, 3.

    <root>/<kind>/<topic>/<queue id>/<20 digits>

Everything here is derived from the log. Folders whose names are no queue ids are skipped, as
RocketMQ does; a topic that is in both consumequeue/ and batchconsumequeue/ is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from commitlog.errors import StoreDamaged, StoreLayoutError
from commitlog.files.system import FileSystem
from commitlog.queues.batch_consume_queue import BatchConsumeQueue
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.consume_queue_ext import ConsumeQueueExt
from commitlog.segments.open_files import OpenFiles
from commitlog.segments.segment_log import SegmentGap
from commitlog.segments.segment_sync import QueueSync, SegmentSync

Queue = ConsumeQueue | BatchConsumeQueue
_Q = TypeVar("_Q", ConsumeQueue, BatchConsumeQueue)

QUEUE_FILE_SIZE = 6_000_000  # RocketMQ's mappedFileSizeConsumeQueue: 300,000 entries of 20
BATCH_FILE_SIZE = 13_800_000  # 300,000 entries of 46
EXT_FILE_SIZE = 50_331_648  # RocketMQ's mappedFileSizeConsumeQueueExt: 48 MiB

PART_COUNT = 2_000  # queues that `capture_part` takes: some 5 ms
OPEN_FILES_MAX = 600  # so many files of queues are open at once; 1,024 is a usual ulimit


class ConsumeQueues:
    """Finds, makes and drops queues; `by_topic` and `batch_by_topic` are keyed by encoded topic.

    Raises StoreLayoutError when a folder holds what a store never does.
    """

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        *,
        staging: Path,
        queue_file_size: int = QUEUE_FILE_SIZE,
        batch_file_size: int = BATCH_FILE_SIZE,
        ext_file_size: int = EXT_FILE_SIZE,
        writable: bool = True,
    ) -> None:
        self._files, self.root, self._staging, self._writable = files, root, staging, writable
        self._sizes = (queue_file_size, batch_file_size, ext_file_size)
        self._open_files = OpenFiles(OPEN_FILES_MAX)
        self.by_topic: dict[bytes, dict[int, ConsumeQueue]] = {}
        self.batch_by_topic: dict[bytes, dict[int, BatchConsumeQueue]] = {}
        self._ext: dict[tuple[bytes, int], ConsumeQueueExt] = {}
        self._changed: set[Queue] = set()  # not as `_counts` and the disk have them
        self._counts: dict[str, int] = {}
        self._topic, self._topic_path = ("", ""), root
        self.broken = False  # files of a queue are missing: build everything anew
        self._load()

    def _load(self) -> None:
        for topic, queue_id in self._folders("consumequeue"):
            self.queue(topic, queue_id)
        for topic, queue_id in self._folders("batchconsumequeue"):
            if topic in self.by_topic:
                name = topic.decode("utf-8", "replace")
                raise StoreLayoutError(
                    f"topic {name} is in both consumequeue and batchconsumequeue of {self.root}; "
                    "remove the folder that does not fit its queue.type, it is rebuilt from the log"
                )
            self.batch_queue(topic, queue_id)
        for topic, queue_id in self._folders("consumequeue_ext"):
            self.ext(topic, queue_id)

    def _folders(self, kind: str) -> Iterator[tuple[bytes, int]]:
        base = self.root / kind
        for topic in self._files.folders(base):
            for name in self._files.folders(base / topic):
                if name.isdigit():
                    yield topic.encode(), int(name)

    # ---- finding and making ----------------------------------------------------------------------

    def find(self, topic: str, queue_id: int) -> Queue | None:
        """The queue, None when it has never had a message."""
        key = topic.encode()
        queue = self.by_topic.get(key, {}).get(queue_id)
        return queue if queue is not None else self.batch_by_topic.get(key, {}).get(queue_id)

    def queue(self, topic: bytes, queue_id: int) -> ConsumeQueue:
        """The plain queue, made in memory if need be; its folder comes with its first entry."""
        queues = self.by_topic.setdefault(topic, {})
        if queue_id not in queues:
            queues[queue_id] = self._make(ConsumeQueue, "consumequeue", 0, topic, queue_id)
        return queues[queue_id]

    def batch_queue(self, topic: bytes, queue_id: int) -> BatchConsumeQueue:
        """The queue of inner batches, made in memory if need be."""
        queues = self.batch_by_topic.setdefault(topic, {})
        if queue_id not in queues:
            queues[queue_id] = self._make(
                BatchConsumeQueue, "batchconsumequeue", 1, topic, queue_id
            )
        return queues[queue_id]

    def _make(self, kind: type[_Q], folder: str, size: int, topic: bytes, queue_id: int) -> _Q:
        text = topic.decode("utf-8", "surrogateescape")
        if text in ("", ".", "..") or "/" in text or "\0" in text:
            # It would be written outside of the store: no writer lets such a name in.
            raise StoreDamaged(f"the topic {text!r} of a record cannot name a folder")
        if (folder, text) != self._topic:
            # Joining paths is half of what a queue costs, and queues of a topic come together.
            self._topic, self._topic_path = (folder, text), self.root / folder / text
        path = self._topic_path / str(queue_id)

        for _ in range(2):
            try:
                return kind(
                    self._files,
                    path,
                    self._sizes[size],
                    staging=self._staging,
                    topic=text,
                    queue_id=queue_id,
                    writable=self._writable,
                    opened=self._open_files.opened,
                    changed=self._changed.add,
                )
            except SegmentGap:
                if not self._writable:
                    raise
                # A power cut took a name that was never synced, or someone removed a file.
                self.broken = True
                for name in self._files.list(path):
                    self._files.remove(path / name)
        raise AssertionError("an empty folder has no gap")

    def ext(self, topic: bytes, queue_id: int) -> ConsumeQueueExt:
        """The extension of a queue, made in memory if need be."""
        key = (topic, queue_id)
        if key not in self._ext:
            text = topic.decode("utf-8", "surrogateescape")
            self._ext[key] = ConsumeQueueExt(
                self._files,
                self.root / "consumequeue_ext" / text / str(queue_id),
                self._sizes[2],
                staging=self._staging,
                writable=self._writable,
            )
        return self._ext[key]

    def __iter__(self) -> Iterator[Queue]:
        for queues in list(self.by_topic.values()):
            yield from list(queues.values())
        for batches in list(self.batch_by_topic.values()):
            yield from list(batches.values())

    # ---- all of them at once ---------------------------------------------------------------------

    def recover(self) -> None:
        """Find every queue's end by scanning (stores without a dispatch mark)."""
        for queue in self:
            queue.recover()
            self._changed.add(queue)
        self._recover_ext()

    def counts(self) -> dict[str, int]:
        """`<kind>/<topic>/<queue id>` → how many entries the queue has, counted from offset 0.

        A copy; made in time of the queues that changed since the last capture, but for the copying.
        """
        self._counts.update((_name(queue), queue.entry_end) for queue in self._changed)
        return self._counts.copy()

    def keep(self, counts: Mapping[str, int]) -> bool:
        """Bring every queue back to its entry count of the last complete sync, as in `counts`.

        False when something is missing: then all queues must be built anew.
        """
        self._counts = {}
        for queue in self:
            name = _name(queue)
            count = self._counts[name] = counts.get(name, 0)
            if name not in counts and queue.log.start:
                queue.remove()
            elif not queue.keep(count):
                return False
        if any(count for name, count in counts.items() if name not in self._counts):
            return False
        self._recover_ext()
        return not self.broken

    def cut(self, position: int) -> None:
        """Forget every message at or above `position`, in every queue."""
        for queue in self:
            queue.cut(position)
        self._recover_ext()

    def _recover_ext(self) -> None:
        for (topic, queue_id), ext in self._ext.items():
            queue = self.by_topic.get(topic, {}).get(queue_id)
            address = None
            if queue is not None and queue.max_offset > queue.min_offset:
                address = queue.read(queue.max_offset - 1, 1)[0].tags_code
            ext.recover(address)

    @property
    def end_position(self) -> int:
        """Greatest end of a message over all queues (D of docs/spec/store.md 6.5)."""
        return max((queue.end_position for queue in self), default=0)

    def correct_min_offsets(self, position_min: int) -> None:
        """After loading: move every `min_offset` to the first message that the log still holds."""
        for queue in self:
            queue.correct_min_offset(position_min)

    def drop_before(self, position_min: int) -> int:
        """After the log lost its front: drop files that point below; return how many."""
        count = 0
        for queue in self:
            count += queue.drop_before(position_min)
            ext = self._ext.get((queue.topic.encode("utf-8", "surrogateescape"), queue.queue_id))
            if ext is not None and isinstance(queue, ConsumeQueue):
                first = queue.read(queue.min_offset, 1)
                if first and first[0].tags_code < -(1 << 31):
                    ext.drop_before(first[0].tags_code)
        return count

    def remove_topic(self, topic: str) -> None:
        """Remove all queues of a topic, files and folders."""
        key = topic.encode()
        gone: list[Queue] = [*self.by_topic.pop(key, {}).values()]
        gone += self.batch_by_topic.pop(key, {}).values()
        for queue in gone:
            queue.remove()
            self._changed.discard(queue)
            self._counts.pop(_name(queue), None)
            self._remove_folder(queue.log.folder)
        for name in [name for name in self._ext if name[0] == key]:
            ext = self._ext.pop(name)
            ext.remove()
            self._remove_folder(ext.log.folder)

    def _remove_folder(self, folder: Path) -> None:
        for path in (folder, folder.parent):
            if self._files.is_dir(path) and not self._files.list(path):
                self._files.remove_dir(path)

    def forget(self) -> None:
        """Empty every queue, before all are built anew; first files stay for the new entries."""
        for queue in self:
            queue.forget()
        for ext in self._ext.values():
            ext.remove()

    def capture(self) -> Sequence[QueueSync | SegmentSync]:
        """Take the syncs that make every entry of every queue durable.

        Costs time of the queues that changed, however many there are.
        """
        captured = self._capture(self._changed)
        self._changed.clear()
        return [*captured, *(ext.capture() for ext in self._ext.values() if ext.dirty)]

    @property
    def part_count(self) -> int:
        """How many parts leave fewer than twice PART_COUNT of the queues that have changed now."""
        return max(len(self._changed) // PART_COUNT - 1, 0)

    def capture_part(self) -> Sequence[QueueSync]:
        """The same of PART_COUNT queues, as long as at least twice as many have changed."""
        if len(self._changed) < 2 * PART_COUNT:
            return ()
        part = list(itertools.islice(self._changed, PART_COUNT))
        self._changed.difference_update(part)
        return self._capture(part)

    def _capture(self, queues: Iterable[Queue]) -> list[QueueSync]:
        segments, folders = [], []
        for queue in queues:
            self._counts[_name(queue)] = queue.entry_end
            dirty, new_names = queue.log.take_dirty()
            segments += dirty
            if new_names:
                folders.append(queue.log.folder)
        return [QueueSync(self._files, segments, folders)] if segments or folders else []

    def close(self) -> None:
        """Release every file, without a sync."""
        for queue in self:
            queue.close()
        for ext in self._ext.values():
            ext.close()


def _name(queue: Queue) -> str:
    """The queue's name in the dispatch mark."""
    return f"{queue.KIND}/{queue.topic}/{queue.queue_id}"
