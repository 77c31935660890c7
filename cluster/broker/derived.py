"""What is derived from committed entries: queues, key index, state. Lags behind commit, in batches.

    apply(last) ─► applied := last ─► at once while someone waits, else within dispatch_delay
                                   ─► chunk: queues and index (Dispatcher), state (core.apply)
                                   ─► waiters of `when_dispatched`, listeners of queues

    dispatched ≤ applied ≤ committed

`apply` never blocks: a chunk has at most `dispatch_chunk_max` entries, the next one gets another
turn of the event loop. Readers of queues and state wait with `when_dispatched(index)`.

A crash leaves queues and index beyond the last checkpoint in any state; `recover` cuts them back to
it and derives the rest again.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from pathlib import Path

from cluster.broker import checkpoint
from cluster.broker.config import BrokerConfig
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import StateChange
from commitlog.config import StoreConfig
from commitlog.consume_queue import ConsumeQueue
from commitlog.derived import DerivedFiles
from commitlog.files import FileSystem
from commitlog.index_service import IndexService
from commitlog.layout import StoreLayout
from dledger.core.types import NO_INDEX, Index, Term
from dledger.errors import NodeFailed
from dledger.storage.port import LogStore

_log = logging.getLogger(__name__)

CHUNK_BYTES_MAX = 4 * 1024 * 1024  # of one chunk; holds the event loop for some milliseconds

Waiter = Callable[[NodeFailed | None], None]
GrownListener = Callable[[str, int, int], None]
ChangeListener = Callable[[list[StateChange]], None]


class DerivedStore:
    """Queues, index and `AppliedState` of one replica. Used on the event loop's thread only."""

    def __init__(
        self,
        config: BrokerConfig,
        files: FileSystem,
        state: AppliedState,
        store: LogStore,
        *,
        first_position: int,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._config, self._files, self.state, self._store = config, files, state, store
        self._call_soon, self._call_later, self._failed = call_soon, call_later, failed
        self._first_position = first_position
        self._layout = StoreLayout(config.root)
        self.files = DerivedFiles(
            files,
            config.root,
            StoreConfig(
                consume_queue_file_size=config.queue_file_size,
                index_slots=config.index_slot_count,
                index_entries=config.index_entry_count,
                index_enabled=config.index_enabled,
            ),
            staging=self._layout.staging,
            entries=True,
            listener=self._queue_grew,
        )
        self.grown: list[GrownListener] = []
        self.changed: list[ChangeListener] = []
        self.eager: Callable[[], bool] = lambda: False
        self.applied: Index = NO_INDEX
        self.entries = 0
        self._waiting: list[tuple[int, int, Waiter]] = []
        self._waiter_number = 0
        self._scheduled = self._running = self._stopped = False
        self._failure: NodeFailed | None = None
        self._recover()

    # -- coming up ---------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._config.root / checkpoint.FILE_NAME

    def _recover(self) -> None:
        """Back to the newest checkpoint; everything behind it is derived again.

        Queues and index that were touched from outside are built anew from the log's beginning,
        and then the state is, too: one pass feeds both.
        """
        state, path, first = self.state, self.path, self._first_position
        position = self.files.recover(first, self._store.end_position)
        loaded = checkpoint.load(
            self._files, path, lambda data: state.restore(data, self._fits(position))
        )
        if not loaded:
            if position > first:
                self.files.remove()
                self.files.recover(first, self._store.end_position)
            state.position = position = first
        if position > state.position:
            self.files.cut(state.position)
        self.files.dispatcher.position = state.position
        self.applied = state.applied

    def _fits(self, reached: int) -> Callable[[Index, Term, int], bool]:
        """Does the log hold the checkpoint's last entry, and do queues and index reach it?"""

        def fits(index: Index, term: Term, position: int) -> bool:
            store = self._store
            if not store.first_index <= index <= store.last.index or position > reached:
                return False
            return store.id_of(index).term == term

        return fits

    # -- state machine -----------------------------------------------------------------------------

    @property
    def dispatched(self) -> Index:
        return self.state.applied

    @property
    def behind(self) -> int:
        """Entries applied and not yet dispatched."""
        return self.applied - self.state.applied

    def apply(self, last: Index) -> None:
        """Entries up to `last` are committed."""
        if last <= self.applied:
            return
        self.applied = last
        if self._waiting or self.behind > self._config.dispatch_lag_max or self.eager():
            self._run()
        elif not self._scheduled:
            self._scheduled = True
            self._call_later(self._config.dispatch_delay, self._run)

    def when_dispatched(self, index: Index, waiter: Waiter) -> None:
        """Call `waiter(None)` once entries up to `index` are in queues and state; maybe at once.

        When they never will be, because something is wrong with them, it is told so.
        """
        if index <= self.state.applied:
            waiter(None)
            return
        if self._failure is not None:
            waiter(self._failure)
            return
        self._waiter_number += 1
        heapq.heappush(self._waiting, (index, self._waiter_number, waiter))
        if index <= self.applied:
            self._hurry()

    def _hurry(self) -> None:
        self._call_soon(self._run)

    def catch_up(self) -> None:
        """Dispatch everything applied, now; at shutdown."""
        while self.behind and not self._stopped:
            self._chunk()

    def stop(self) -> None:
        self._stopped = True

    def _run(self) -> None:
        """One chunk; the rest in later turns."""
        self._scheduled = False
        if self._stopped or self._running:
            return
        self._running = True
        try:
            if self.behind:
                self._chunk()
        except Exception as error:  # whatever it is: what follows cannot be derived either
            self._fail(error)
            return
        finally:
            self._running = False
        self._wake()
        if self.behind and not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _chunk(self) -> None:
        first = Index(self.state.applied + 1)
        last = Index(min(self.applied, self.state.applied + self._config.dispatch_chunk_max))
        part = self._store.read_range(first, last, CHUNK_BYTES_MAX)
        data = part.parts[0] if len(part.parts) == 1 else b"".join(part.parts)
        whole = bytes(data)
        self.files.dispatcher.dispatch(part.position, (whole,))
        changes = self.state.apply(whole, first)
        assert self.state.applied == part.last
        self.state.position = part.position + part.size
        self.entries += part.last - first + 1
        if changes:
            for listener in self.changed:
                listener(changes)

    def _wake(self) -> None:
        waiting, done = self._waiting, self.state.applied
        while waiting and waiting[0][0] <= done:
            waiter = heapq.heappop(waiting)[2]
            try:
                waiter(None)
            except Exception:  # a mistake in one request is no mistake in what is derived
                _log.exception("a request that waited for dispatch failed")

    def _fail(self, error: Exception) -> None:
        """Stop for good: entries are derived in order or not at all."""
        self._stopped = True
        self._failure = NodeFailed(
            f"entries from {self.state.applied + 1} on cannot be put into queues and state: {error}"
        )
        waiting, self._waiting = self._waiting, []
        for _, _, waiter in sorted(waiting, key=lambda item: item[:2]):
            waiter(self._failure)
        self._call_soon(lambda: self._failed(error))  # not from inside the replica

    def _queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        for listener in self.grown:
            listener(topic, queue_id, max_offset)

    # -- reading -----------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, None when it never had a message."""
        found = self.files.queues.by_topic.get(topic.encode())
        return None if found is None else found.get(queue_id)

    @property
    def index(self) -> IndexService | None:
        """The key index, None when it is off."""
        return self.files.index

    # -- checkpoints -------------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        """Was anything dispatched since the last one, and is all well?"""
        return self.files.pending and not self._stopped

    def begin_checkpoint(self) -> checkpoint.SaveTask:
        """Everything dispatched now as one piece of disk work; one at a time."""
        state = self.state.to_checkpoint()
        sync = self.files.begin_sync()
        assert sync.mark.position == self.state.position, "queues and state go together"
        return checkpoint.SaveTask(self._files, self._layout, state, sync, self.state.store_ms)

    def finish_checkpoint(self, task: checkpoint.SaveTask) -> None:
        """`task.run` has returned."""
        self.files.finish_sync(task.derived)

    def close(self) -> None:
        self._stopped = True
        self.files.close()
