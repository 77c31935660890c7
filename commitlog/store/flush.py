"""Syncs of the commit log, and calls that wait for them (docs/spec/store.md 6.1).

    SYNC_FLUSH   group commit: one fdatasync covers everything appended while the last one ran;
                 `wait(position)` returns when the flushed end has reached it
    ASYNC_FLUSH  every 500 ms when 4 new pages wait, every 10 s when anything does; nobody waits

The end is captured under the append lock before the sync begins (R13). A failed sync is never tried
again: the log is failed, every waiter is told (D5).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from commitlog.config import FlushMode, StoreConfig
from commitlog.errors import StoreFailed
from commitlog.store.background import Background
from commitlog.store.commit_log import CommitLog

_PAGE_SHIFT = 12


class FlushService(Background):
    """The flushed end of one commit log, and the thread that moves it.

    Args:
        append_lock: held by the thread that appends.
        on_flushed: called after each sync, on the syncing thread, without locks.

    Invariant: `flushed` ≤ log.end; bytes before it are on disk.
    """

    def __init__(
        self,
        log: CommitLog,
        append_lock: threading.Lock,
        config: StoreConfig,
        on_flushed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._log, self._append_lock, self._config = log, append_lock, config
        self._on_flushed = on_flushed
        self.flushed = log.end
        self.flushed_timestamp_ms = log.store_timestamp_ms
        self._one_sync = threading.Lock()

    def start(self) -> None:
        """Start the thread of the configured mode; `wake` says that something was appended."""
        run = self._run_sync if self._config.flush_mode is FlushMode.SYNC else self._run_async
        self._begin(run, "flush")

    def stop(self) -> None:
        """Stop the thread after a last sync. Raises StoreFailed when that fails."""
        super().stop()
        self.flush()

    def wait(self, position: int) -> None:
        """Return when everything below `position` is on disk.

        Raises StoreFailed when the disk refused or did not answer within the timeout; the message
        may or may not be found later.
        """
        timeout_s = self._config.sync_flush_timeout_ms / 1000
        if self._thread is None:
            self.flush()
        with self._condition:
            self._condition.notify_all()
            done = self._condition.wait_for(
                lambda: self.flushed >= position or self._log.failed is not None, timeout_s
            )
        if self.flushed >= position:
            return
        if self._log.failed is not None:
            raise self._log.failed
        assert not done
        raise StoreFailed(
            f"the disk did not sync within {self._config.sync_flush_timeout_ms} ms; "
            "the message may be stored, look for it before sending it again"
        )

    def flush(self) -> None:
        """Sync all bytes appended up to now. Raises StoreFailed."""
        with self._one_sync:
            if self._log.failed is not None:
                raise self._log.failed
            with self._append_lock:
                end, task = self._log.capture()
                time_ms = self._log.store_timestamp_ms
            if end > self.flushed:
                try:
                    task.run()
                except OSError as error:
                    failed = self._log.fail(error)
                    self.wake()
                    raise failed from error
                with self._condition:
                    self.flushed, self.flushed_timestamp_ms = end, time_ms
                    self._condition.notify_all()
        self._on_flushed()

    def _run_sync(self) -> None:
        while True:  # until stop(); each turn waits for an append
            with self._condition:
                self._condition.wait_for(lambda: self._stopping or self._log.end > self.flushed)
            if self._stopping or not self._try_flush():
                return

    def _run_async(self) -> None:
        interval_s = self._config.flush_interval_ms / 1000
        thorough_s = self._config.flush_thorough_interval_ms / 1000
        last_s = time.monotonic()
        while True:  # until stop(); each turn waits for the interval
            with self._condition:
                if self._condition.wait_for(lambda: self._stopping, interval_s):
                    return
            end = self._log.end
            pages = (end >> _PAGE_SHIFT) - (self.flushed >> _PAGE_SHIFT)
            overdue = time.monotonic() - last_s >= thorough_s
            if end > self.flushed and (pages >= self._config.flush_pages_min or overdue):
                last_s = time.monotonic()
                if not self._try_flush():
                    return

    def _try_flush(self) -> bool:
        try:
            self.flush()
        except StoreFailed:
            return False  # kept in the log; waiters and the next put are told
        return True
