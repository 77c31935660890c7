"""The broker's state on disk: bounds what a restart applies again; losing it loses nothing.

    <root>/state.ckpt      magic "DLBS" (4) | version 1 (4) | crc32 of the rest (4) | size (4)
                           | state as JSON (cluster.core.apply)

Written whole or not at all, after queues and index below its position are on disk with their own
mark. A missing or damaged file means that everything is derived again from the log's beginning.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from commitlog.derived import DerivedSync
from commitlog.files import FileSystem

FILE_NAME = "state.ckpt"
VERSION = 1

_HEAD = struct.Struct(">4sIII")
_MAGIC = b"DLBS"
_log = logging.getLogger(__name__)


class SaveTask:
    """Sync queues, index and their mark, then write the state; `run` in any thread."""

    def __init__(
        self, files: FileSystem, path: Path, staging: Path, state: bytes, derived: DerivedSync
    ) -> None:
        self._files, self._path, self._staging = files, path, staging
        self._state, self.derived = state, derived

    def run(self) -> None:
        """Raises OSError."""
        self.derived.run()
        self._files.write_atomic(self._path, encode(self._state), staging=self._staging)


def encode(state: bytes) -> bytes:
    return _HEAD.pack(_MAGIC, VERSION, crc32(state), len(state)) + state


def load(files: FileSystem, path: Path, restore: Callable[[bytes], None]) -> bool:
    """Give the saved state to `restore`; False when there is none that can be used."""
    if not files.exists(path):
        return False
    data = files.read(path)
    try:
        magic, version, crc, size = _HEAD.unpack_from(data)
        state = data[_HEAD.size :]
        if magic != _MAGIC or version != VERSION or len(state) != size or crc32(state) != crc:
            raise ValueError("magic, version, size or checksum is wrong")
        restore(state)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        _log.warning("%s cannot be used (%s); all is derived from the log again", path, error)
        return False
    return True
