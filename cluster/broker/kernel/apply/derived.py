"""DerivedStore makes queues, key index and state from committed entries, chunk by chunk.

    apply(last) ─► applied := last ─► at once if a reader waits, else within dispatch_delay
                                      (a follower: twice that) or when 4 MiB have come
                                   ─► chunk: queues and index (Dispatcher), state (core.apply)
                                   ─► waiters of `when_dispatched`, listeners of queues

    dispatched ≤ applied ≤ committed

`apply` never blocks: a chunk has at most `dispatch_chunk_max` entries, and each further chunk gets
another turn of the event loop. Readers of queues and state wait with `when_dispatched(index)`. On a
full disk no chunk is derived until there is space (derived_space.py); `when_shown`, which requests
of clients use, then refuses instead of waiting.

After a crash, queues and index may hold anything behind the last checkpoint; `_recover` cuts them
back to the checkpoint and derives the later entries again.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable
from pathlib import Path

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply import checkpoint
from cluster.broker.kernel.apply.chunk_size import ChunkSize
from cluster.broker.kernel.apply.chunks import CHUNK_BYTES_MAX, ChunkReader
from cluster.broker.kernel.apply.derived_space import DerivedSpace
from cluster.broker.kernel.apply.log_beginning import LogBeginning
from cluster.broker.kernel.apply.queues_ahead import InThread, QueuesAhead
from cluster.core.apply import AppliedState
from cluster.core.feature_level import UpgradeNeeded
from cluster.core.internal_topics import StateChange
from commitlog.config import StoreConfig
from commitlog.dispatch.derived import DerivedFiles
from commitlog.dispatch.dispatcher import FilterBitmap
from commitlog.files.system import FileSystem
from commitlog.index.index_service import IndexService
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.queue_entry import is_ext_address
from commitlog.queues.queue_ext_unit import QueueExtUnit
from commitlog.store.layout import StoreLayout
from dledger.core.types import NO_INDEX, Index, Term
from dledger.errors import DledgerError, NodeFailed
from dledger.log.port import LogStore
from dledger.runtime.complaints import Complaints

_log = logging.getLogger(__name__)

#: While consumers wait: after a chunk of at least PACE_ENTRIES_MIN entries, the next one begins
#: PACE_SECONDS later. So a lone message is derived at once, a stream in larger, cheaper chunks.
PACE_ENTRIES_MIN = 16
PACE_SECONDS = 0.003
#: A follower has no readers while its leader lives, so it derives fewer, larger chunks.
FOLLOWER_DELAY_FACTOR = 2

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
        now: Callable[[], float] = time.monotonic,
        filter_bitmap: FilterBitmap | None = None,
        beginning: LogBeginning | None = None,
        bound: Callable[[Waiter], Waiter] = lambda waiter: waiter,
        in_thread: InThread | None = None,
        leads: Callable[[], bool] = lambda: True,
        space_told: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`beginning`: None for a log that keeps all its files. `bound`: see `Owned.bound`.

        `in_thread` makes files of new queues in a thread; None: the event loop's thread makes them.
        `space_told` is called with the disk's error text when deriving stops, "" when it goes on.
        """
        self._config, self._files, self.state, self._store = config, files, state, store
        self._now, self._bound, self._leads = now, bound, leads
        self._call_soon, self._call_later, self._failed = call_soon, call_later, failed
        self._first_position, self._beginning = first_position, beginning
        self._layout = StoreLayout(config.root)
        self.files = DerivedFiles(
            files,
            config.root,
            StoreConfig(
                consume_queue_file_size=config.queue_file_size,
                index_slots=config.index_slot_count,
                index_entries=config.index_entry_count,
                index_enabled=config.index_enabled,
                message_delay_level=config.message_delay_level,
                consume_queue_ext_enabled=filter_bitmap is not None,
            ),
            staging=self._layout.staging,
            entries=True,
            listener=self._queue_grew,
            filter_bitmap=filter_bitmap,
            passed_over=lambda address, why: self._complain(f"the record at {address}", why),
        )
        state.complained.append(lambda index, why: self._complain(f"entry {index}", why))
        self.passed_over = 0
        self._complaints = Complaints(_log, lambda: 0.0)  # a replay has no clock: count on
        self.grown: list[GrownListener] = []
        self.changed: list[ChangeListener] = []
        #: Each returns True while a consumer waits; then committed entries are derived at once.
        self.eager: list[Callable[[], bool]] = []
        self.applied: Index = NO_INDEX
        self._waiting: list[tuple[int, int, Waiter]] = []
        self._scheduled = self._paced = self._running = self._stopped = False
        self.entries = self._waiter_number = self._last_count = 0
        self._chunk_size, queues = ChunkSize(config.dispatch_chunk_max), self.files.queues
        self._chunks = ChunkReader(store, state, queues, self._chunk_size, beginning)
        self.space = DerivedSpace(call_later, self._run, space_told)
        self._ahead = QueuesAhead(queues, in_thread, self._run)
        self._failure: NodeFailed | None = None
        self._recover()

    # -- coming up ---------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file of the checkpoint."""
        return self._config.root / checkpoint.FILE_NAME

    def _recover(self) -> None:
        """Return to the newest checkpoint; later entries are derived again.

        Without a checkpoint that fits the log, queues and index, all of them and the state are
        built anew from the log's beginning, as one pass over the log makes all three.
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
            state.position = first
            if self._beginning is not None:
                self._beginning.restore(state)
            position = state.position
        if self._beginning is not None:
            self._beginning.begin_queues(state, self.files)
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
        """The highest index that queues, key index and state have."""
        return self.state.applied

    @property
    def behind(self) -> int:
        """Entries applied and not yet dispatched."""
        return self.applied - self.state.applied

    def apply(self, last: Index) -> None:
        """Note that entries up to `last` are committed; derive them now or soon."""
        if last <= self.applied:
            return
        self.applied = last
        is_lone, is_eager = self._last_count < PACE_ENTRIES_MIN, self._is_eager()
        if self._waiting or self._is_far_behind() or (is_lone and is_eager):
            self._run()
        else:
            self._run_later(is_eager)

    def _is_eager(self) -> bool:
        return any(waits() for waits in self.eager)

    def _run_later(self, is_eager: bool) -> None:
        if is_eager:
            if not self._paced:
                self._paced = True
                self._call_later(PACE_SECONDS, self._run_paced)
        elif not self._scheduled:
            self._scheduled = True
            delay = self._config.dispatch_delay
            if not self._leads():
                delay *= FOLLOWER_DELAY_FACTOR
            self._call_later(delay, self._run)

    def _is_far_behind(self) -> bool:
        return (
            self.behind > self._config.dispatch_lag_max
            or self._store.end_position - self.state.position > CHUNK_BYTES_MAX
        )

    def _run_paced(self) -> None:
        self._paced = False
        self._run()

    def when_dispatched(self, index: Index, waiter: Waiter) -> None:
        """Call `waiter(None)` once entries up to `index` are in queues and state; maybe at once.

        If an entry cannot be derived, it is called with the error that stopped this node.
        """
        if index <= self.state.applied:
            waiter(None)
            return
        if self._failure is not None:
            waiter(self._failure)
            return
        self._waiter_number += 1
        heapq.heappush(self._waiting, (index, self._waiter_number, self._bound(waiter)))
        if index <= self.applied:
            self._call_soon(self._run)

    def when_shown(self, index: Index, waiter: Callable[[DledgerError | None], None]) -> None:
        """As `when_dispatched`, for a client's request: refuses it while the disk is full."""
        if self.space.why and index > self.state.applied:
            waiter(self.space.refusal())
        else:
            self.when_dispatched(index, waiter)

    def catch_up(self) -> None:
        """Dispatch everything applied, now; at shutdown."""
        self._ahead.settle()
        while self.behind and not self._stopped and not self.space.waits:
            self._derive()

    def stop(self) -> None:
        """Derive no more; the files stay open."""
        self._stopped = True

    def _run(self) -> None:
        """Derive one chunk; schedule the next one, at once if it is full or a reader waits."""
        self._scheduled = False
        if self._stopped or self._running or self.space.waits or self._ahead.waits:
            return
        self._running = True
        try:
            if self.behind:
                self._derive()
        except Exception as error:  # later entries cannot be derived without these
            self._fail(error)
            return
        finally:
            self._running = False
        self._wake()
        if self._waiting or self.behind >= self._chunk_size.entries or self._is_far_behind():
            if self.behind and not self._scheduled:
                self._scheduled = True
                self._call_soon(self._run)
        elif self.behind:
            self._run_later(self._is_eager())

    def _derive(self) -> None:
        """Derive one chunk; on a full disk wait for space and derive it again."""
        try:
            is_done = self._chunk()
        except OSError as error:
            if self.files.dispatcher.is_failed:
                raise
            self.space.rest(error, self.state.applied + 1)
        else:
            if is_done:
                self.space.found()

    def _chunk(self) -> bool:
        """Derive one chunk; False: a thread makes the files of its new queues first."""
        began = self._now()
        chunk = self._chunks.read(self._ahead.adopt(self.applied))
        if chunk.new and self._ahead.begin(chunk.new, chunk.last):
            return False
        data, stretches = chunk.data, chunk.stretches
        self.files.dispatcher.dispatch(chunk.position, (data,), stretches=stretches)
        changes = self.state.apply(data, chunk.first, stretches)
        assert self.state.applied == chunk.last
        self.state.position = chunk.end
        self._last_count = chunk.count
        self.entries += chunk.count
        self._chunk_size.took(chunk.count, self._now() - began)
        if changes:
            for listener in self.changed:
                listener(changes)
        return True

    def _wake(self) -> None:
        waiting, done = self._waiting, self.state.applied
        while waiting and waiting[0][0] <= done:
            heapq.heappop(waiting)[2](None)

    def _fail(self, error: Exception) -> None:
        """Stop for good, because an entry must not be derived without the ones before it."""
        self._stopped = True
        if isinstance(error, UpgradeNeeded):
            self._failure = error
        else:
            first = self.state.applied + 1
            self._failure = NodeFailed(
                f"entries from {first} on cannot be put into queues and state: {error}"
            )
            self._failure.__cause__ = error
        waiting, self._waiting = self._waiting, []
        for _, _, waiter in sorted(waiting, key=lambda item: item[:2]):
            waiter(self._failure)
        failure = self._failure
        self._call_soon(lambda: self._failed(failure))  # not from inside the replica

    def _complain(self, what: str, why: str) -> None:
        """Count and log a record that no replica can read, and so every replica passes over."""
        self.passed_over += 1
        self._complaints.say(
            "passed over",
            "%s is committed and cannot be understood, so every replica passes it over: %s; "
            "look which program or version wrote it",
            what,
            why,
            level=logging.ERROR,
        )

    def _queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        for listener in self.grown:
            listener(topic, queue_id, max_offset)

    # -- reading -----------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, None when it never had a message."""
        of_topic = self.files.queues.by_topic.get(topic.encode())
        queue = None if of_topic is None else of_topic.get(queue_id)
        if queue is not None and self._beginning is not None:
            self._beginning.fit_queue(queue)
        return queue

    def ext_unit(self, topic: str, queue_id: int, tags_code: int) -> QueueExtUnit | None:
        """The extension's unit when a queue entry has an address for its tags code; else None."""
        if not is_ext_address(tags_code):
            return None
        return self.files.queues.ext(topic.encode(), queue_id).get(tags_code)

    @property
    def index(self) -> IndexService | None:
        """The key index, None when it is off."""
        return self.files.index

    # -- checkpoints -------------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        """Was an entry dispatched since the last checkpoint, and does this store still run?"""
        return self.files.pending and not self._stopped

    def begin_checkpoint(self) -> checkpoint.SaveTask:
        """A task that saves everything dispatched so far; one at a time."""
        state = self.state.capture()
        sync = self.files.begin_sync()
        assert sync.mark.position == self.state.position, "queues and state go together"
        before = None if self._beginning is None else self._beginning.begin_save()
        return checkpoint.SaveTask(
            self._files, self._layout, state, sync, self.state.store_ms, before
        )

    def finish_checkpoint(self, task: checkpoint.SaveTask) -> None:
        """End a task after its `run`; if the disk was full, the next task saves the rest."""
        if task.again:
            self.files.again(task.derived)
        if task.no_room:
            return
        self.files.finish_sync(task.derived)
        if self._beginning is not None:
            self._beginning.forget_deleted(self.files)

    def close(self) -> None:
        """Derive no more, and close the files of queues and key index."""
        self._stopped = True
        self._ahead.close()
        self.files.close()
