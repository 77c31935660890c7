"""Queues and key index made from the log alone (docs/spec/store.md 3.6, 4)."""

from __future__ import annotations

from pathlib import Path

from commitlog.dispatch.dispatcher import Dispatcher
from commitlog.errors import StoreUsageError
from commitlog.files.system import FileSystem
from commitlog.index.index_service import IndexService
from commitlog.inspect.geometry import DerivedSizes
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.store.reader import Item

_BATCH_SIZE = 1 << 20
_KINDS = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")


class Rebuild:
    """Writes consumequeue/, consumequeue_ext/, batchconsumequeue/ and index/ into `out`.

    `with_ext`: the queues have extension units, as those of a store with `enableConsumeQueueExt`
    do. Their filter bits depend on who had subscribed to what; they are left out.

    `add` every item in log order, then `finish`. Raises StoreUsageError when `out` holds such
    folders already, OSError when it cannot be written.
    """

    def __init__(
        self, files: FileSystem, out: Path, sizes: DerivedSizes, *, with_ext: bool = False
    ) -> None:
        for kind in _KINDS:
            if files.list(out / kind):
                raise StoreUsageError(
                    f"{out / kind} exists; give an empty folder, nothing is overwritten"
                )
        if sizes.index is None:
            raise StoreUsageError(
                "the index files do not say how many slots to make, they are damaged; "
                "give --index-slots and --index-entries"
            )
        files.make_dirs(out)
        self._files, self._out, self._staging = files, out, out / "staging"
        self._queues = ConsumeQueues(
            files,
            out,
            staging=self._staging,
            queue_file_size=sizes.queue,
            batch_file_size=sizes.batch,
            ext_file_size=sizes.ext,
        )
        self._index = IndexService(
            files, out / "index", staging=self._staging, geometry=sizes.index
        )
        bitmap = (lambda _: None) if with_ext else None
        self._plain = Dispatcher(self._queues, self._index, entries=False, filter_bitmap=bitmap)
        self._entries = Dispatcher(self._queues, self._index, entries=True, filter_bitmap=bitmap)
        self._batch: list[bytes] = []
        self._begin = self._end = 0
        self._with_entries = False
        self.message_count = 0

    def add(self, item: Item) -> None:
        """Add one record; a record without a message is left out."""
        if item.message is None:
            return
        entries = item.header is not None
        full = self._end - self._begin > _BATCH_SIZE
        if item.position != self._end or entries != self._with_entries or full:
            self._dispatch()
            self._begin, self._with_entries = item.position, entries
        self._batch.append(item.raw)
        self._end = item.position + item.size
        self.message_count += 1

    def _dispatch(self) -> None:
        if self._batch:
            dispatcher = self._entries if self._with_entries else self._plain
            dispatcher.position = self._begin  # what lies between was a blank, or damaged
            dispatcher.dispatch(self._begin, [b"".join(self._batch)])
            self._batch.clear()

    def finish(self) -> None:
        """Write and sync everything."""
        self._dispatch()
        for task in self._queues.capture():
            task.run()
        self._index.capture().run()
        for kind in _KINDS:
            self._files.make_dirs(self._out / kind)
        if self._files.is_dir(self._staging) and not self._files.list(self._staging):
            self._files.remove_dir(self._staging)

    def close(self) -> None:
        """Close queues and index."""
        self._queues.close()
        self._index.close()
