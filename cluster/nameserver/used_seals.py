"""Up to which stamp a name server took sealed changes: one number in a file, written before each.

A server takes each seal once (core/access/single_use.py) and remembers that in memory. Usually a
restart needs no more: stamps of before it are refused. But stamps that were taken while the clock
was ahead are still to come when the server starts with a clock that was set back. So the newest one
is on disk before a change is done, and all up to it count as used in the next life. A broker keeps
the same in its log, as store times.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.nameserver.listen import NameServerConfigError
from commitlog.files.system import OS_FILES

FILE_NAME = "used-seals"


class UsedSeals:
    """With `path` None in memory only. Raises NameServerConfigError for another file, OSError."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        #: In ms since 1970; 0: none was taken.
        self.until_ms = _read(path) if path is not None and path.exists() else 0

    async def keep(self, stamp_ms: int) -> None:
        """On disk when it returns. Raises OSError."""
        async with self._lock:
            if stamp_ms <= self.until_ms:
                return
            if self._path is not None:
                await asyncio.to_thread(OS_FILES.write_atomic, self._path, b"%d\n" % stamp_ms)
            self.until_ms = stamp_ms


def _read(path: Path) -> int:
    text = path.read_bytes().strip()
    if not text.isdigit():
        raise NameServerConfigError(
            f"{path} does not say up to when seals were used; remove it, if this machine's clock "
            "was never ahead"
        )
    return int(text)
