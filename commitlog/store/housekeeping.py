"""The background of an open store: flush, dispatch, syncs of derived files, retention.

    flush thread        group commit or timed (flush.py)
    keeper thread       woken by each flush: dispatch; every second: sync of derived files when due,
                        checkpoint; every 10 s: disk water marks, expired files
    create-ahead thread the next log file, before it is needed (docs/spec/store.md 6.3)

The keeper never holds a lock while it syncs. An error of the disk marks the log failed; puts and
waiters are told, reads go on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from commitlog.config import StoreConfig
from commitlog.errors import StoreDamaged, StoreFailed
from commitlog.recovery.retention import DiskLevel, LogFile, disk_level, files_to_drop
from commitlog.segments.segment_log import SegmentLog
from commitlog.store.background import Background
from commitlog.store.flush import FlushService
from commitlog.store.store_open import OpenedStore

MARK_LAG_MAX = 64 << 20  # bytes of log that a restart has to dispatch again, at most about


class CreateAhead(Background):
    """Keeps `count` files beyond the one that holds `end()`, made in a thread of its own.

    Making a file allocates (and, when asked, writes) all of it and syncs two folders; a put that
    rolled into a missing file would wait for that. What is made and not used goes at a clean
    shutdown; after a crash recovery removes it.

    Errors are swallowed: the writer meets them itself when it needs the file, and says so.
    """

    def __init__(self, log: SegmentLog, end: Callable[[], int], count: int) -> None:
        super().__init__()
        self._log, self._end, self._count = log, end, count

    def start(self) -> None:
        """From here on `wake` says that the end may have moved into the last file."""
        if self._count > 0:
            self._begin(self._run, "create-ahead")

    def missing(self) -> bool:
        """Should a file be made now?"""
        last_needed = self._log.file_start(self._end()) + self._count * self._log.file_size
        return self._log.limit <= last_needed

    def _run(self) -> None:
        while not self._stopping:
            if self.missing():
                with contextlib.suppress(OSError):
                    self._log.extend(self._log.limit)
            with self._condition:
                if self._stopping:
                    return
                # A file that could not be made is tried again after a second.
                self._condition.wait(1.0 if self.missing() else None)


class Housekeeping(Background):
    """Owns the threads; `tick` does one round without them."""

    def __init__(
        self,
        opened: OpenedStore,
        config: StoreConfig,
        append_lock: threading.Lock,
        derive_lock: threading.RLock,
        catch_up: Callable[[], None],
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__()
        self._opened, self._config, self._clock_ms = opened, config, clock_ms
        self._append_lock, self._derive_lock = append_lock, derive_lock
        self._catch_up = catch_up
        self.flush = FlushService(opened.log, append_lock, config, self._flushed)
        self._ahead = CreateAhead(opened.log.log, lambda: opened.log.end, config.preallocated_files)
        self._woken = False
        self.disk_level = DiskLevel.NORMAL
        self._synced_s = self._cleaned_s = time.monotonic()
        self._synced_position = opened.derived.dispatcher.position

    def start(self) -> None:
        """Start the background threads: flush, files made ahead, and the keeper."""
        self.flush.start()
        self._ahead.start()
        self._begin(self._run, "keeper")

    def stop(self) -> None:
        """Stop the threads; everything appended is flushed. Raises StoreFailed."""
        super().stop()
        self._ahead.stop()
        self.flush.stop()

    def appended(self) -> None:
        """A message is in the log."""
        self.flush.wake()
        if self._ahead.missing():
            self._ahead.wake()

    def check_space(self) -> None:
        """Refuse producers above the disk's water mark. Raises StoreFailed."""
        if self.disk_level is DiskLevel.FULL:
            raise StoreFailed(
                f"the disk of {self._opened.layout.root} is more than "
                f"{self._config.disk_full_percent} % full, so nothing was stored; "
                "free space, then send again"
            )

    def _flushed(self) -> None:
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def _run(self) -> None:
        interval_s = self._config.queue_flush_interval_ms / 1000
        while True:  # until stop()
            with self._condition:
                self._condition.wait_for(lambda: self._woken or self._stopping, interval_s)
                self._woken = False
                if self._stopping:
                    return
            try:
                self._round()
            except OSError as error:
                self._opened.log.fail(error)
                self.flush.wake()
            except (StoreFailed, StoreDamaged):
                # Kept in the log, or met again by the next reader, who is told where it is.
                continue

    def tick(self) -> None:
        """Everything that may be due, now. Raises OSError, StoreFailed, StoreDamaged."""
        self.flush.flush()
        self._catch_up()
        self.sync_derived()
        self.clean()

    def _round(self) -> None:
        self._catch_up()
        now_s = time.monotonic()
        lag = self._opened.derived.dispatcher.position - self._synced_position
        thorough_s = self._config.queue_flush_thorough_interval_ms / 1000
        if lag > MARK_LAG_MAX or (lag and now_s - self._synced_s >= thorough_s):
            self.sync_derived()
        if now_s - self._cleaned_s >= self._config.clean_interval_ms / 1000:
            self._cleaned_s = now_s
            self.clean()

    def sync_derived(self) -> None:
        """Sync queues and index, move mark and checkpoint. Raises OSError, StoreFailed."""
        self.flush.flush()  # nothing may be marked that the log itself does not hold
        with self._derive_lock:
            flushed_ms = self.flush.flushed_timestamp_ms
            if self._opened.derived.dispatcher.position > self.flush.flushed:
                return  # written meanwhile, in ASYNC_FLUSH; the next round will do
            task = self._opened.derived.begin_sync()
        task.run()
        with self._derive_lock:
            self._opened.save_progress(flushed_ms, task)
        self._synced_s, self._synced_position = time.monotonic(), task.mark.position

    def clean(self) -> None:
        """Look at the disk's water marks and drop files that may go. Raises OSError."""
        opened, log = self._opened, self._opened.log.log
        self.disk_level = disk_level(opened.files.usage(opened.layout.root), self._config)
        now_s = self._clock_ms() / 1000
        log_files = [
            LogFile(start, opened.files.modified_at(log.path_of(start)))
            for start in log.file_starts
            if start <= opened.log.end
        ]
        gone = files_to_drop(
            log_files,
            self.disk_level,
            self._config,
            now_s=now_s,
            hour=time.localtime(now_s).tm_hour,
        )
        for file in gone:
            with self._append_lock, self._derive_lock:
                position_min = file.start + log.file_size
                if position_min > opened.derived.dispatcher.position:
                    break
                log.drop_before(position_min)
                opened.derived.drop_before(log.start)
            with self._condition:
                if self._condition.wait_for(
                    lambda: self._stopping, self._config.delete_pause_ms / 1000
                ):
                    break
        if gone:
            self.sync_derived()  # a mark below the log's start would be worth nothing
