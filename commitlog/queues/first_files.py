"""Makes the first files of queues in a thread, before those queues get their first messages.

    FirstFiles(queues) ─► run(), in any thread: folders and files ─► adopt(), on the queues' thread

Making folders and a file takes a millisecond of the disk, and now and then a second. A caller on an
event loop therefore has them made before it writes, so that its writes find the files there.

A crash may leave a file without entries, like a crash between making a file and writing its first
entry. The dispatch mark covers no entry of it, so `ConsumeQueues.keep` reads it as an empty queue.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from commitlog.files.allocation import allocate_blocks
from commitlog.files.system import File
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.queue_entry import ENTRY_SIZE


class FirstFiles:
    """Disk work that makes the first file of each of `queues`, which have none and begin at 0.

    Until `adopt` or `close` the caller may read these queues and must not write to them.
    """

    def __init__(self, queues: Sequence[ConsumeQueue]) -> None:
        assert not any(queue.max_offset or queue.log.file_starts for queue in queues)
        self._queues, self._made = queues, list[File]()
        self._lock, self._is_done = threading.Lock(), False
        self._error: OSError | None = None

    def run(self) -> None:
        """Make the files, once, in any thread; a second caller waits for the first one.

        If the disk fails here, `adopt` raises its error.
        """
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
            try:
                for queue in self._queues:
                    file = queue.log.create_next()
                    self._made.append(file)
                    allocate_blocks(file, ENTRY_SIZE, derived=True)
            except OSError as error:
                self._error = error

    def adopt(self) -> None:
        """Give the queues the files that `run` made. Raises OSError if some could not be made.

        The other queues have their files even when it raises.
        """
        assert self._is_done
        for queue, file in zip(self._queues, self._made, strict=False):
            queue.log.adopt(file)
        self._queues = ()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Wait for `run`, or prevent it, and close the files that `adopt` did not take."""
        with self._lock:
            self._is_done = True
        if self._queues:
            for file in self._made:
                file.close()
