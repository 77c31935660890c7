"""Memory cgroups for processes that a test starts, inside the group that the test itself is in.

    v1   <root>/memory/<own path>/dledger-…    memory.limit_in_bytes, memory.oom_control
    v2   <root>/<own path>/dledger-…           memory.max, memory.events

What is above limits them as well, so nothing is lifted. A process starts in the group of the one
that starts it: the test enters the group, starts it and goes back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
#: Name in v1, name in v2.
_LIMIT = ("memory.limit_in_bytes", "memory.max")
_PEAK = ("memory.max_usage_in_bytes", "memory.peak")
_KILLS = ("memory.oom_control", "memory.events")


class MemoryGroup:
    """One group with a limit in bytes. `remove` it when its processes have ended."""

    def __init__(self, parent: Path, name: str, bytes_max: int) -> None:
        """Raises OSError when this machine, or this user, cannot have one here."""
        self._parent, self._folder = parent, parent / name
        self._folder.mkdir()
        try:
            self._of(_LIMIT).write_text(str(bytes_max))
        except OSError:
            self.remove()
            raise

    def _of(self, names: tuple[str, str]) -> Path:
        """The file of that meaning. Raises FileNotFoundError: no memory controller here."""
        for name in names:
            if (self._folder / name).exists():
                return self._folder / name
        raise FileNotFoundError(f"{self._folder} has none of {names}")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """What this process starts meanwhile is in the group."""
        _move(self._folder)
        try:
            yield
        finally:
            _move(self._parent)

    @property
    def peak_bytes(self) -> int:
        """The most that its processes had at once, the page cache of their files counted."""
        return int(self._of(_PEAK).read_text())

    @property
    def kills(self) -> int:
        """Processes that the kernel has killed for want of memory."""
        rows = dict(line.split() for line in self._of(_KILLS).read_text().splitlines())
        return int(rows["oom_kill"])

    def remove(self) -> None:
        """Raises OSError while processes are in it."""
        self._folder.rmdir()


def _move(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def own_group() -> Path:
    """The folder of the memory group that this process is in. Raises OSError: there is none."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return ROOT / "memory" / path.lstrip("/")
        if not controllers and (ROOT / "cgroup.controllers").exists():
            return ROOT / path.lstrip("/")
    raise FileNotFoundError(f"no memory controller under {ROOT}")
