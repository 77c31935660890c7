"""Files of new queues are made in a thread before the entries that need them are derived.

    chunk names new queues ─► thread: folders and files ─► the same chunk again, now quick
                         └─ meanwhile nothing is derived: entries go in order or not at all

A client may name hundreds of new topics in a second. Their folders made on the event loop would
hold up heartbeats, replication and every other client for a millisecond each, or for as long as a
slow disk likes; what waits for the thread is only what reads queues and state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from commitlog.dispatch.new_queues import QueueKey
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.first_files import FirstFiles
from dledger.core.types import NO_INDEX, Index

#: Calls the first in a thread, and then the second on the event loop's.
InThread = Callable[[Callable[[], object], Callable[[], object]], object]


class QueuesAhead:
    """`waits`: deriving rests until the files are there; then `again` is called."""

    def __init__(
        self, queues: ConsumeQueues, in_thread: InThread | None, again: Callable[[], None]
    ) -> None:
        """`in_thread`: None, and the dispatcher makes files as it writes."""
        self._queues, self._in_thread, self._again = queues, in_thread, again
        self._task: FirstFiles | None = None
        self._last = NO_INDEX
        self.waits = False

    def begin(self, keys: Iterable[QueueKey], last: Index) -> bool:
        """Have the files of these queues made; False when their writer is to make them.

        `last`: of the entries that are derived next; more of them would name more new queues.
        """
        if self._in_thread is None:
            return False
        assert self._task is None
        self._last = last
        self._task = FirstFiles([self._queues.queue(*key) for key in keys])
        self.waits = True
        self._in_thread(self._task.run, self._made)
        return True

    def _made(self) -> None:
        self.waits = False
        self._again()

    def adopt(self, last: Index) -> Index:
        """Give queues the files that were made for them, if any were. Raises OSError.

        Returns up to where entries may be derived now, at most `last`. After `settle` it waits.
        """
        task, self._task = self._task, None
        if task is None:
            return last
        task.run()
        task.adopt()
        return min(last, self._last)

    def settle(self) -> None:
        """At shutdown: no thread is used from here on."""
        self._in_thread, self.waits = None, False

    def close(self) -> None:
        """Wait for the thread, and close the files that it made."""
        self.settle()
        if self._task is not None:
            self._task.close()
