"""First files of queues that are about to get their first messages, made in a thread.

    FirstFiles(queues) ─► run(), in any thread: folders and files ─► adopt(), on the owner's

To make folders and a file takes a disk a millisecond, and now and then a second. Whoever has an
event loop asks for them before it writes, and the writes then find them there.

What a crash may leave: a file without entries, as one does between making a file and writing its
first entry. Nothing vouches for entries in it, so `ConsumeQueues.keep` takes it for an empty queue.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from commitlog.files.allocation import allocate_blocks
from commitlog.files.system import File
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.queue_entry import ENTRY_SIZE


class FirstFiles:
    """One piece of disk work for `queues`, which have no files and begin at offset 0.

    They may be read meanwhile, and nothing is written to them before `adopt` or `close`.
    """

    def __init__(self, queues: Sequence[ConsumeQueue]) -> None:
        assert not any(queue.max_offset or queue.log.file_starts for queue in queues)
        self._queues, self._made = queues, list[File]()
        self._lock, self._is_done = threading.Lock(), False
        self._error: OSError | None = None

    def run(self) -> None:
        """Make them, once, in any thread; a second caller waits for the first one.

        An error of the disk is raised by `adopt`.
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
        """After `run`: give the queues their files. Raises OSError when not all could be made.

        Files that were made are used whether it raises or not.
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
