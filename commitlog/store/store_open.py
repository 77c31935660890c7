"""Opening a plain store and closing it cleanly (docs/spec/store.md 6.5, 8).

    lock ─► load files (strict) ─► recover the log ─► cut off what is behind its end
         ─► derived files back to the mark ─► dispatch to the end ─► abort file ─► open

Nothing but the lock is touched before all files were found to be what they should be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from commitlog.config import StoreConfig
from commitlog.dispatch.derived import DerivedFiles, DerivedSync
from commitlog.dispatch.dispatcher import Listener
from commitlog.errors import StoreDamaged, StoreFailed
from commitlog.files.system import FileSystem
from commitlog.recovery.checkpoint import Checkpoint
from commitlog.recovery.recovery import (
    DamagedRange,
    RecoveredLog,
    choose_start,
    rewrite,
    store_time,
    walk_log,
)
from commitlog.segments.segment_log import SegmentLog
from commitlog.store.commit_log import CommitLog
from commitlog.store.layout import (
    StoreLayout,
    StoreLock,
    lock_store,
    read_checkpoint,
    remove_abort,
    was_clean,
    write_abort,
    write_checkpoint,
)

_CHUNK_SIZE = 1 << 20


class OpenedStore:
    """Everything of an open store that is not about threads."""

    def __init__(
        self,
        files: FileSystem,
        layout: StoreLayout,
        lock: StoreLock,
        log: CommitLog,
        derived: DerivedFiles,
        checkpoint: Checkpoint,
        damage: list[DamagedRange],
    ) -> None:
        self.files, self.layout, self._lock = files, layout, lock
        self.log, self.derived = log, derived
        self.checkpoint, self.damage = checkpoint, damage
        self.next_offsets: dict[tuple[bytes, int], int] = {}

    def store_time_of(self, position: int) -> int:
        """Store time of the message at `position`; 0 when it is damaged or gone."""
        return store_time(self.log.log, position) if position >= self.log.start else 0

    def dispatch_to(self, bound: int) -> None:
        """Dispatch [dispatcher.position, bound), going around damage. `bound` is a record's end."""
        dispatcher, log = self.derived.dispatcher, self.log.log
        while dispatcher.position < bound:
            begin = dispatcher.position
            stop = min(bound, log.limit)
            for hole in self.damage:
                if hole.begin <= begin < hole.end:
                    dispatcher.position = begin = min(hole.end, bound)
                elif begin < hole.begin:
                    stop = min(stop, hole.begin)
                    break
            if begin >= bound:
                return
            size = min(_CHUNK_SIZE, stop - begin, log.left(begin))
            dispatcher.dispatch(begin, [log.pread(size, begin)], partial=True)
            if dispatcher.position == begin:
                # One record is larger than a chunk: its size is its first field.
                size = int.from_bytes(log.pread(4, begin), "big", signed=True)
                if not _CHUNK_SIZE < size <= stop - begin:
                    raise StoreDamaged("no record begins here", position=begin)
                dispatcher.dispatch(begin, [log.pread(size, begin)])

    def save_progress(self, flushed_timestamp_ms: int, task: DerivedSync) -> None:
        """After `task.run()`: note the synced state in memory and in the checkpoint."""
        self.derived.finish_sync(task)
        self.checkpoint = self.checkpoint._replace(
            physical_timestamp_ms=max(flushed_timestamp_ms, 0),
            logical_timestamp_ms=task.mark.store_timestamp_ms,
            index_timestamp_ms=max(self.checkpoint.index_timestamp_ms, self.derived.index_time_ms),
        )
        write_checkpoint(self.files, self.layout, self.checkpoint)

    def shut_down(self, flushed_timestamp_ms: int) -> None:
        """Leave a clean store. The log is flushed and dispatched to its end. Raises OSError."""
        task = self.derived.begin_sync()
        task.run()
        self.save_progress(flushed_timestamp_ms, task)
        log = self.log.log
        if self.log.end > log.start or log.start == 0:  # else the name of the file keeps the start
            log.drop_after(self.log.end)
        remove_abort(self.files, self.layout)

    def release(self) -> None:
        """Close all files and let the lock go."""
        self.derived.close()
        self.log.close()
        self._lock.release()


def open_store(
    root: Path,
    config: StoreConfig,
    files: FileSystem,
    *,
    listener: Listener | None,
    clock_ms: Callable[[], int],
) -> OpenedStore:
    """Lock, load, recover. Raises StoreLocked, StoreLayoutError, StoreFailed."""
    lock = lock_store(files, root)
    with contextlib.ExitStack() as undo:
        undo.callback(lock.release)
        try:
            store = _open_locked(root, config, files, lock, listener, clock_ms)
        except OSError as error:
            raise StoreFailed(
                f"the store in {root} could not be opened ({error}); "
                "free or repair the disk, then try again"
            ) from error
        undo.pop_all()
    return store


def _open_locked(
    root: Path,
    config: StoreConfig,
    files: FileSystem,
    lock: StoreLock,
    listener: Listener | None,
    clock_ms: Callable[[], int],
) -> OpenedStore:
    layout = StoreLayout(root)
    log = SegmentLog(
        files,
        layout.commit_log,
        config.commit_log_file_size,
        staging=layout.staging,
        zeros=config.write_zeros,
    )
    derived = _derived_files(layout, config, files, listener, clock_ms)
    clean, checkpoint = was_clean(files, layout), read_checkpoint(files, layout)
    files.make_dirs(layout.staging)
    write_abort(files, layout, os.getpid())
    found = _recover_log(log, derived, clean, checkpoint, config)
    commit_log = CommitLog(
        log, found.end, found.store_timestamp_ms, record_crc=config.record_crc_enabled
    )
    store = OpenedStore(files, layout, lock, commit_log, derived, checkpoint, found.damage)
    derived.recover(
        log.start,
        found.end,
        clean=clean,
        checkpoint=checkpoint,
        position_by_time=lambda bound: choose_start(log, lambda _, ms: ms <= bound),
        store_time_of=store.store_time_of,
    )
    try:
        store.dispatch_to(found.end)
    except StoreDamaged:
        # What is damaged in the log is gone around, so a queue has lied about where it ends.
        derived.remove()
        derived.dispatcher.position = log.start
        store.dispatch_to(found.end)
    for queue in derived.queues:
        store.next_offsets[queue.topic.encode(), queue.queue_id] = queue.max_offset
    return store


def _derived_files(
    layout: StoreLayout,
    config: StoreConfig,
    files: FileSystem,
    listener: Listener | None,
    clock_ms: Callable[[], int],
) -> DerivedFiles:
    return DerivedFiles(
        files,
        layout.root,
        config,
        staging=layout.staging,
        entries=False,
        listener=listener,
        filter_bitmap=lambda _: None,  # the bits are a broker's, who knows the subscriptions
        now=lambda: clock_ms() / 1000,
    )


def _recover_log(
    log: SegmentLog,
    derived: DerivedFiles,
    clean: bool,
    checkpoint: Checkpoint,
    config: StoreConfig,
) -> RecoveredLog:
    """Find the log's end, make it durable, cut off all bytes behind it."""
    if not log.file_starts:
        derived.remove()
        return RecoveredLog(log.start)
    mark = derived.mark()
    marked = mark is not None and log.start <= mark.position <= log.limit
    if mark is not None and marked:
        start = mark.position
    elif clean:
        derived.queues.recover()
        ends = derived.queues.end_position
        start = choose_start(log, lambda position, _: position <= ends)
    else:
        start = choose_start(log, lambda _, ms: ms <= checkpoint.replay_bound_ms)
    found = walk_log(
        log, start, check_crc=config.check_crc_on_recovery, trust_zeros=clean and marked
    )
    if not found.store_timestamp_ms and mark is not None:
        found.store_timestamp_ms = mark.store_timestamp_ms
    if clean and marked:
        log.drop_after(max(found.end, log.start + 1))  # a clean exit left nothing else
    else:
        log.truncate(found.end)
    if not clean:
        rewrite(log, start, found.end)
    return found
