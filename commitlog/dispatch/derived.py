"""Queues, index and the mark that says how far they are on disk, as one thing.

What the replicated log's broker and the plain store share: both dispatch committed bytes, sync the
results now and then, and start by cutting them back to the mark.

    recover() ─► position to dispatch from        dispatcher.dispatch(...)
    begin_sync() ─► task.run() in a thread ─► finish_sync(task)

Sync order (nothing may be marked that is not on disk): queues and index first, then the mark. The
caller begins a sync only when the log itself is on disk up to `dispatcher.position`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from commitlog.config import StoreConfig
from commitlog.delay_levels import parse_delay_levels
from commitlog.dispatch.dispatch_mark import DispatchMark, read_mark, remove_mark, write_mark
from commitlog.dispatch.dispatcher import Dispatcher, FilterBitmap, Listener, PassedOver
from commitlog.files.system import FileSystem
from commitlog.index.index_service import IndexService, IndexServiceSync
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.recovery.checkpoint import Checkpoint


class _Task(Protocol):
    def run(self) -> None: ...


class DerivedSync:
    """Disk work captured at one moment; `run` once, from any thread. Raises OSError."""

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        staging: Path,
        tasks: Sequence[_Task],
        index: IndexServiceSync | None,
        mark: DispatchMark,
    ) -> None:
        self._files, self._root, self._staging = files, root, staging
        self._tasks, self.index, self.mark = tasks, index, mark

    def run(self) -> None:
        """Sync every derived file, then write the mark."""
        self.sync_queues()
        self.allocate_blocks()
        self.sync_index()
        self.write_mark()

    def sync_queues(self) -> None:
        """Sync the queues. Raises OSError: then the content on disk is unknown."""
        for task in self._tasks:
            task.run()

    def allocate_blocks(self) -> None:
        """Get blocks for all writes of `sync_index`. Raises OSError (ENOSPC) before any write: then
        the owner calls `DerivedFiles.again`."""
        if self.index is not None:
            self.index.allocate_blocks()

    def sync_index(self) -> None:
        """Write and sync the index. Raises OSError: then the content on disk is unknown."""
        if self.index is not None:
            self.index.run()

    def write_mark(self) -> None:
        """Write the mark, after both syncs. After an error the earlier mark stands, still true."""
        write_mark(self._files, self._root, self.mark, staging=self._staging)


class DerivedFiles:
    """`queues`, `index` (None when switched off) and the `dispatcher` that feeds them.

    Args:
        root: store root; consumequeue/, batchconsumequeue/, consumequeue_ext/ and index/ are here.
        entries: the log holds entries of the replicated log (True) or plain records (False).
        listener, passed_over: see `Dispatcher`.

    Call `recover` before anything else. Raises StoreLayoutError for foreign files.
    """

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        config: StoreConfig,
        *,
        staging: Path,
        entries: bool,
        writable: bool = True,
        listener: Listener | None = None,
        filter_bitmap: FilterBitmap | None = None,
        batch_topic: Callable[[str], bool] | None = None,
        passed_over: PassedOver | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._files, self._root, self._staging = files, root, staging
        self.queues = ConsumeQueues(
            files,
            root,
            staging=staging,
            queue_file_size=config.consume_queue_file_size,
            batch_file_size=config.batch_queue_file_size,
            ext_file_size=config.consume_queue_ext_file_size,
            writable=writable,
        )
        self.index: IndexService | None = None
        if config.index_enabled:
            self.index = IndexService(
                files,
                root / "index",
                staging=staging,
                geometry=config.index_geometry,
                writable=writable,
                now=now,
            )
        self.dispatcher = Dispatcher(
            self.queues,
            self.index,
            entries=entries,
            listener=listener,
            delay_levels=parse_delay_levels(config.message_delay_level),
            filter_bitmap=filter_bitmap if config.consume_queue_ext_enabled else None,
            batch_topic=batch_topic,
            passed_over=passed_over,
        )
        self._entries = entries
        self._index_time_ms = 0
        self._marked = -1
        self._is_empty = False  # nothing came in since `remove`

    # ---- start -----------------------------------------------------------------------------------

    def mark(self) -> DispatchMark | None:
        """The mark on disk."""
        return read_mark(self._files, self._root)

    def recover(
        self,
        log_start: int,
        log_end: int,
        *,
        clean: bool = False,
        checkpoint: Checkpoint | None = None,
        position_by_time: Callable[[int], int] | None = None,
        store_time_of: Callable[[int], int] | None = None,
    ) -> int:
        """Bring everything to a state that is right below some position, and return it.

        The caller dispatches the log from there. `log_end`: no entry at or above it survives.
        With a mark that is all. Without one (a store of RocketMQ) plain stores follow
        docs/spec/store.md 6.5 with `clean` (the last process closed it), `checkpoint` and
        `position_by_time(bound)`, the address of a record stored at or before `bound`; anything
        else is built anew from `log_start`. Ends with a new mark, unless the one on disk says the
        same. Raises OSError.

        Queues are only shortened here, and what they keep was on disk: that they end where the new
        mark says needs no sync, so starting costs no disk work for each of many queues.
        """
        self._files.make_dirs(self._staging)
        mark = self.mark()
        position = -1
        if mark is not None:
            if log_start <= mark.position and self._keep(mark):
                position = min(mark.position, log_end)
                if position < mark.position:
                    self._cut(position, store_time_of)
                elif self.index is None or not self.index.dirty:
                    self._marked = position
        elif not self._entries and checkpoint is not None and position_by_time is not None:
            position = self._recover_unmarked(
                log_start, log_end, clean, checkpoint, position_by_time, store_time_of
            )
        if position < 0:
            if not self._is_empty:
                self.remove()
            position = log_start
        self._is_empty = False
        self.queues.correct_min_offsets(log_start)
        self.dispatcher.position = position
        if self.pending:
            self._finish(self._sync_of([]))
        return position

    def _keep(self, mark: DispatchMark) -> bool:
        self.dispatcher.store_timestamp_ms = mark.store_timestamp_ms
        if self.index is not None and not self.index.keep(
            mark.index_file, mark.index_next, mark.index_end_ms
        ):
            return False
        # A queue that claims a later message is broken, and would take none of those to come.
        return self.queues.keep(mark.queues) and self.queues.end_position <= mark.position

    def _cut(self, position: int, store_time_of: Callable[[int], int] | None) -> None:
        self.queues.cut(position)
        if self.index is not None:
            self.index.cut(position, store_time_of)

    def _finish(self, task: DerivedSync) -> None:
        task.run()
        self.finish_sync(task)

    def _recover_unmarked(
        self,
        log_start: int,
        log_end: int,
        clean: bool,
        checkpoint: Checkpoint,
        position_by_time: Callable[[int], int],
        store_time_of: Callable[[int], int] | None,
    ) -> int:
        """Start position by docs/spec/store.md 6.5; -1 when all must be built anew."""
        self.queues.recover()
        if self.queues.broken:
            return -1
        self.dispatcher.store_timestamp_ms = checkpoint.logical_timestamp_ms
        ends = self.queues.end_position
        if clean:
            position = max(ends, log_start)
        else:
            position = position_by_time(checkpoint.replay_bound_ms)
            if self.index is not None:
                again = self.index.drop_unsafe(checkpoint.index_timestamp_ms, store_time_of)
                position = position if again is None else min(position, max(again, log_start))
        if self.index is not None and not self.index.files:
            position = log_start  # its folder is gone; queues skip what they have
        if ends > log_end:
            self.queues.cut(log_end)
            if self.queues.end_position > log_end:
                return -1  # broken: its entries do not ascend
        if self.index is not None and self.index.end_position >= log_end:
            self.index.cut(log_end, store_time_of)
        return min(position, log_end)

    # ---- durability ------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Has anything been dispatched that the mark on disk does not cover?"""
        return self.dispatcher.position != self._marked

    @property
    def part_count(self) -> int:
        """How often `begin_part` should be called before a sync begins; 0: not at all."""
        return self.queues.part_count

    def begin_part(self) -> Callable[[], None] | None:
        """Sync some of very many queues that changed, in any thread; None when they are few.

        A whole sync is begun on the loop, in time of each queue that changed; this leaves it less.
        Those queues are as durable then as behind it, and no mark tells of them.
        """
        tasks = self.queues.capture_part()

        def run() -> None:
            for task in tasks:
                task.run()

        return run if tasks else None

    def begin_sync(self) -> DerivedSync:
        """Capture everything dispatched so far. One sync at a time."""
        return self._sync_of(self.queues.capture())

    def _sync_of(self, tasks: Sequence[_Task]) -> DerivedSync:
        index, name, following, end_ms = None, "", 1, 0
        if self.index is not None:
            index = self.index.capture()
            if self.index.files:
                newest = self.index.files[-1]
                name, following = newest.path.name, newest.count + 1
                end_ms = newest.header.end_timestamp_ms
        mark = DispatchMark(
            self.dispatcher.position,
            self.dispatcher.store_timestamp_ms,
            self.queues.counts(),
            name,
            following,
            end_ms,
        )
        return DerivedSync(self._files, self._root, self._staging, tasks, index, mark)

    def finish_sync(self, task: DerivedSync) -> None:
        """Call after `task.run()` returned: remember the synced position and index time."""
        self._marked = task.mark.position
        if task.index is not None:
            self._index_time_ms = max(self._index_time_ms, task.index.full_time_ms)

    def again(self, task: DerivedSync) -> None:
        """Let the next sync do the work of `task`: its `allocate_blocks` found no free space."""
        if self.index is not None and task.index is not None:
            self.index.again(task.index)

    @property
    def index_time_ms(self) -> int:
        """End time of the newest full index file that is on disk, for the checkpoint."""
        return self._index_time_ms

    # ---- going back and going away ---------------------------------------------------------------

    def drop_before(self, position_min: int) -> None:
        """The log lost everything below `position_min`: queues and index follow."""
        self.queues.drop_before(position_min)
        if self.index is not None:
            self.index.drop_before(position_min)

    def cut(self, position: int, store_time_of: Callable[[int], int] | None = None) -> None:
        """Forget every message at or above `position`, at run time, durably. Raises OSError.

        No sync may be under way.
        """
        self._cut(position, store_time_of)
        self.dispatcher.position = min(self.dispatcher.position, position)
        self._finish(self.begin_sync())

    def remove_topic(self, topic: str) -> None:
        """Remove a topic's queues, durably. No sync may be under way. Raises OSError."""
        self.queues.remove_topic(topic)
        self._finish(self.begin_sync())

    def remove(self) -> None:
        """Empty all derived files, the mark first; dispatch builds them anew."""
        remove_mark(self._files, self._root)
        self._is_empty = True
        self.queues.forget()
        if self.index is not None:
            self.index.remove()

    def close(self) -> None:
        """Release all files, without a sync."""
        self.queues.close()
        if self.index is not None:
            self.index.close()
