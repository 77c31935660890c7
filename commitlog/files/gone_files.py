"""Large files are deleted in steps, so that no sync of the same disk waits for all of one.

    remove, replace ─► the name goes at once ─► a thread: open elsewhere? ─► no: cut off the end,
                                                                              rest, again; close

The system gives the blocks of a file back where its last descriptor is closed, all in one go, and
syncs of other files wait until its journal has that: three files of 512 MiB delayed a log's syncs
for a fifth of a second. A log closes deleted files on its event loop, so the loop itself waited:
86 ms for one of 64 MiB, 396 ms for one of 512 MiB, on a busy disk.

Here a descriptor is held, so that no other close is the last. Bytes are cut off only where the file
has no name left, as of a backup that links to it, and where the system tells that no reader has it
open or mapped; else the file is left to the last reader. A process that ends or is killed leaves
the rest to the system. Bytes that are to go count as free (`bytes_on`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

#: A smaller file is deleted at once.
SIZE_MIN = 8 << 20
STEP_BYTES = 8 << 20
#: Rest after a step, in times of how long it took, at least and at most so many seconds.
REST_RATIO, REST_SECONDS, REST_SECONDS_MAX = 1.5, 0.01, 0.1
#: With more that is to go there are no rests: the space is needed.
BYTES_MAX = 4 << 30
#: A file that is open for longer is left to its readers; where the system cannot tell, after less.
OPEN_SECONDS_MAX, UNKNOWN_SECONDS_MAX = 60.0, 5.0
_LOOK_SECONDS = 0.05  # between two questions whether it is still open


class _Gone:
    """A file without a name, held open here; `is_last`: no other descriptor or mapping is left."""

    def __init__(self, fd: int, size: int, device: int, since: float) -> None:
        self.fd, self.left, self.device, self.since = fd, size, device, since
        self.is_last = False


class GoneFiles:
    """Deleted files of one process; the thread lives while there are any."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._rest = clock, rest
        self.forget()

    def forget(self) -> None:
        """Start anew; a child process must, as it has the descriptors and not the thread."""
        for gone in getattr(self, "_files", ()):
            os.close(gone.fd)
        self._lock = threading.Lock()
        self._files: list[_Gone] = []
        self._thread: threading.Thread | None = None

    def remove(self, path: Path) -> None:
        """Remove the name. Raises OSError as `unlink` does."""
        self._without_name(path, path.unlink)

    def replace(self, source: Path, target: Path) -> None:
        """Give `source` the name of `target`, which may exist. Raises OSError as `rename` does."""
        self._without_name(target, lambda: os.rename(source, target))

    def bytes_on(self, path: Path) -> int:
        """Bytes on the file system of `path` that will be free soon."""
        with self._lock:
            if not self._files:
                return 0
            device = path.stat().st_dev
            return sum(gone.left for gone in self._files if gone.device == device)

    def wait(self, seconds: float) -> bool:
        """Wait until all are gone, for so long; False: some are not."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _without_name(self, path: Path, act: Callable[[], None]) -> None:
        gone = self._held(path)
        try:
            act()
        except BaseException:
            if gone is not None:
                os.close(gone.fd)
            raise
        if gone is None:
            return
        with self._lock:
            self._files.append(gone)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="gone-files", daemon=True)
                self._thread.start()

    def _held(self, path: Path) -> _Gone | None:
        """A large file, opened; None for others, and where it cannot be opened."""
        try:
            if path.lstat().st_size < SIZE_MIN:
                return None
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        found = os.fstat(fd)
        return _Gone(fd, found.st_size, found.st_dev, self._clock())

    def _serve(self) -> None:
        while True:  # until none is left
            with self._lock:
                if not self._files:
                    self._thread = None
                    return
                gone = self._files[0]
            begun = self._clock()
            ended, worked = self._step(gone)
            with self._lock:
                self._files.pop(0)
                if not ended:
                    self._files.append(gone)
                in_need = sum(one.left for one in self._files) > BYTES_MAX
            if ended:
                os.close(gone.fd)
            if not worked and not ended:
                self._rest(_LOOK_SECONDS)
            elif worked and not in_need:
                took = REST_RATIO * (self._clock() - begun)
                self._rest(min(REST_SECONDS_MAX, max(REST_SECONDS, took)))

    def _step(self, gone: _Gone) -> tuple[bool, bool]:
        """Cut one step off, if that may be. Is it over, and was anything cut off?"""
        if not gone.is_last:
            if os.fstat(gone.fd).st_nlink:
                return True, False  # it has another name
            known, gone.is_last = _is_last(gone.fd)
            if not gone.is_last:
                seconds_max = OPEN_SECONDS_MAX if known else UNKNOWN_SECONDS_MAX
                return self._clock() - gone.since >= seconds_max, False
        left = max(0, gone.left - STEP_BYTES)
        try:
            os.ftruncate(gone.fd, left)
        except OSError:  # the close gives all of it back
            return True, False
        gone.left = left
        return not left, True


def _is_last(fd: int) -> tuple[bool, bool]:
    """Can the system tell, and is no other descriptor or map of the file left?

    The system grants a lease for writing in that case only, to the file's owner.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN, False
    except AttributeError:  # a system without leases
        return False, False
    return True, True


GONE_FILES = GoneFiles()
os.register_at_fork(after_in_child=GONE_FILES.forget)
