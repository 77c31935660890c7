"""The memory limit of this process, and the share of it that strangers get.

    RLIMIT_DATA, RLIMIT_AS     what does not fit is refused: an allocation fails, wherever it is
    cgroup memory limit        what does not fit is taken: the kernel kills the process

Either ends a node, whichever part took the memory. So clients may hold only a share of the limit
before a request has come whole. A thread's stack counts in full for the first kind, though
little of it is used: threads get small ones (`small_stacks`).
"""

from __future__ import annotations

import functools
import resource
import threading
from pathlib import Path

#: A part of the limit that frames which have not come whole may take: 18 of 300 MB.
STRANGERS_PART = 16
#: Of each thread; 8 MiB is usual, and ten threads have 80 of 300 MB then.
STACK_BYTES = 1 << 20
#: A cgroup without a limit says a number near 2^63.
_UNLIMITED = 1 << 50


def memory_limit() -> int | None:
    """Bytes that this process may have, by its own limits and its cgroup's; None: no limit.

    Its own limits are read each time, because they can be set from outside while it runs.
    """
    limits = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    known = [one for one in (*limits, cgroup_limit()) if 0 <= one < _UNLIMITED]
    return min(known, default=None)


def strangers_share(most: int, least: int) -> int:
    """Bytes that incomplete frames may take: `most`, or less where memory is limited."""
    limit = memory_limit()
    return most if limit is None else min(most, max(least, limit // STRANGERS_PART))


@functools.cache
def cgroup_limit(
    proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int:
    """The smallest memory limit of this process's cgroup and those above it; -1: none is known."""
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return -1
    found: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _limits(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            found += _limits(root / "memory", path, "memory.limit_in_bytes")
    return min(found, default=-1)


def _limits(root: Path, path: str, name: str) -> list[int]:
    """In a container the path may be one of the machine's, and only the root's file be there."""
    folder = root / path.lstrip("/")
    found = []
    for place in (folder, *folder.parents):
        try:
            text = (place / name).read_text().strip()
        except OSError:
            text = ""
        if text.isdecimal() and int(text) < _UNLIMITED:
            found.append(int(text))
        if place == root:
            break
    return found


def small_stacks() -> None:
    """For the threads that are started from now on."""
    threading.stack_size(STACK_BYTES)
