"""A thread that does one replica's disk work of one kind, so that the event loop never waits.

    loop ── submit(work) ──► queue ──► thread: work.task.run() ── call_soon_threadsafe ──► done
                                               └─► times: since when, how long (disk_watch.py)

A thread of its own with a plain queue, not an executor: at one entry in flight every message waits
for this hop, and an executor's futures, locks and callbacks cost four times as much.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from dledger.replica.disk_watch import SyncTimes
from dledger.replica.ports import SyncWork
from dledger.runtime.clock import SystemClock
from dledger.runtime.owned import Owned

Done = Callable[[SyncWork, BaseException | None], None]

#: The queue of each kind of work: a vote does not wait for the log's bulk data, nor the log for a
#: vote (L2), and neither for files that are made, moved or read.
QUEUE_OF = {
    "log": "log",
    "mark": "hard",
    "hard": "hard",
    "prepare": "files",
    "trim": "files",
    "snapshot": "files",
    "mend": "files",
    "generations": "files",
}


def error_of(work: SyncWork) -> BaseException | None:
    """Do the work, unless it is withdrawn; the error that it ends with.

    The replica decides on each: a thread that dies of one is mute.
    """
    try:
        if not work.withdrawn:
            work.task.run()
    except BaseException as raised:
        return raised
    return None


def tell(owned: Owned, done: Done, work: SyncWork, error: BaseException | None) -> None:
    """Call `done` on the loop of `owned`; a loop that is closed drops it."""
    try:  # noqa: SIM105  # `suppress` makes an object for every sync
        owned.call_soon_threadsafe(done, work, error)
    except RuntimeError:
        pass


class DiskQueue(Protocol):
    """Does disk work of one replica, one piece after the other; `times`: of that work."""

    times: SyncTimes

    def submit(self, work: SyncWork) -> None:
        """Do it behind earlier work."""
        ...

    def stop(self, timeout: float) -> None:
        """Wait until all is done, for at most `timeout` seconds; not on the event loop."""
        ...


class SyncThread:
    """One thread. The replica has at most one work of a kind under way, which bounds the queue."""

    def __init__(
        self,
        name: str,
        owned: Owned,
        done: Done,
        now: Callable[[], float] = SystemClock.now,
    ) -> None:
        self._owned, self._done, self._now = owned, done, now
        self.times = SyncTimes()
        self._queue: SimpleQueue[SyncWork | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: SyncWork) -> None:
        """Add work to the queue; the thread does it in order."""
        self._queue.put(work)

    def stop(self, timeout: float) -> None:
        """Let the work under way end, for at most `timeout` seconds, and end the thread."""
        self._queue.put(None)
        self._thread.join(timeout)

    def _serve(self) -> None:
        times, now = self.times, self._now
        while (work := self._queue.get()) is not None:
            times.begin(work.kind, now())
            error = error_of(work)
            times.end(now())
            tell(self._owned, self._done, work, error)
