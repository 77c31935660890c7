"""A few threads that do the disk work of many replicas, of a host's groups (machine/host.py).

    queue of a ── a1, a2 ──┐
    queue of b ── b1 ──────┼─► queues that have work, each once ─► thread, thread, …
    queue of c ────────────┘        ▲                               │ one piece of it,
                                    └── behind the others, if more ─┘ `done` on the loop

Work of one queue is never done by two threads at once, nor out of order: a replica's own rules
count on that. A queue with much work stands behind the others after each piece.

The first piece of a queue is under way, also while all threads are busy for others: a disk that
keeps them all does not come back for this replica either (disk_watch.py). While others' work comes
to its end it waits for its turn: it counts from the last such end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

from dledger.replica.disk_watch import SyncTimes
from dledger.replica.ports import SyncWork
from dledger.runtime.owned import Owned
from dledger.runtime.sync_thread import Done, error_of, tell


class DiskThreads:
    """`count` threads, from the start to `stop`; `owned`: of the host, ended by a mistake here."""

    def __init__(self, name: str, count: int, owned: Owned) -> None:
        self._owned = owned
        #: When the last piece of work ended, in the queues' seconds.
        self.ended_at = float("-inf")
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        #: Guards every queue; told when one has no work left.
        self.changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def queue(self, owned: Owned, done: Done, now: Callable[[], float]) -> SharedDiskQueue:
        """One for a replica: `done` is called on the loop of `owned`."""
        return SharedDiskQueue(self, owned, done, now)

    def run(self, work: Callable[[], None]) -> None:
        """Call it in a thread, in no order with other work; a mistake in it ends the host."""
        self._queue.put(work)

    def stop(self, timeout: float) -> None:
        """Let all work end, for at most `timeout` seconds a thread; not on the loop."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except BaseException as error:  # a queue catches what its work raises: this is ours
                self._died(error)

    def _died(self, error: BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: too late to tell
            self._owned.call_soon_threadsafe(self._owned.died, error)


class _TimesOfTurns(SyncTimes):
    """The times of a queue, of which the first piece may wait for its turn."""

    def __init__(self, queue: SharedDiskQueue) -> None:
        super().__init__()
        self._queue = queue

    def under_way_since(self) -> float | None:
        began = self.began_at
        return began if began is None else max(began, self._queue.waits_since())


class SharedDiskQueue:
    """One replica's disk work of one kind; see the module's text. A `DiskQueue`."""

    def __init__(
        self, threads: DiskThreads, owned: Owned, done: Done, now: Callable[[], float]
    ) -> None:
        self._threads, self._owned, self._done, self._now = threads, owned, done, now
        self._changed = threads.changed
        self.times: SyncTimes = _TimesOfTurns(self)
        self._work: list[SyncWork] = []  # a few at most
        #: A thread is asked to come, or works for this queue; it has begun the first piece.
        self._asked = self._begun = False

    def waits_since(self) -> float:
        """The end of others' work that this queue's first piece still waits behind, if it does."""
        return float("-inf") if self._begun else self._threads.ended_at

    def submit(self, work: SyncWork) -> None:
        """Do it behind earlier work."""
        with self._changed:
            self._work.append(work)
            if len(self._work) == 1:
                self.times.begin(work.kind, self._now())
            if self._asked:
                return
            self._asked = True
        self._threads.run(self._run_first)

    def stop(self, timeout: float) -> None:
        """Wait until all is done, for at most `timeout` seconds; not on the event loop.

        What is withdrawn waits for no thread: all of them may be busy for other replicas.
        """
        with self._changed:
            for work in list(self._work)[self._begun :]:
                if work.withdrawn:
                    self._work.remove(work)
                    tell(self._owned, self._done, work, None)
            self._changed.wait_for(lambda: not self._work, timeout)

    def _run_first(self) -> None:
        with self._changed:
            if not self._work:  # it was withdrawn
                self._asked = False
                return
            work, now = self._work[0], self._now()
            self.times.begin(work.kind, now)
            self._begun = True
        error = error_of(work)
        with self._changed:
            now = self._now()
            self.times.end(now)
            self._threads.ended_at = now
            tell(self._owned, self._done, work, error)  # before who waits for the last one is told
            self._work.pop(0)
            self._begun = False
            if self._work:
                self.times.begin(self._work[0].kind, now)
                self._threads.run(self._run_first)
            else:
                self._asked = False
                self._changed.notify_all()
