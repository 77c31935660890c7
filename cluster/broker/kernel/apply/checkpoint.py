"""The broker's state on disk: a restart applies only the entries after it; without it, all of them.

    <root>/state.ckpt      magic "DLBS" (4) | version 1 (4) | crc32 of the rest (4) | size (4)
                           | state as JSON (cluster.core.apply)

Written whole or not at all, after queues and index below its position are on disk with their own
mark. A missing or damaged file, or one of a version that kept no owners of producer ids, means that
everything is derived again from the log's beginning, with the state that deleted entries had led to
(log_beginning.py).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path

from cluster.core.captured_state import CapturedState
from commitlog.dispatch.derived import DerivedSync
from commitlog.files.system import FileSystem, is_out_of_space
from commitlog.records.checksum import crc32
from commitlog.recovery.checkpoint import Checkpoint
from commitlog.store.layout import StoreLayout, write_checkpoint
from dledger.errors import LaterVersion
from dledger.versions import refuse_later

FILE_NAME = "state.ckpt"
VERSION = 1

_HEAD = struct.Struct(">4sIII")
_MAGIC = b"DLBS"
_log = logging.getLogger(__name__)


class SaveTask:
    """Sync queues, index and their mark, then write the state; `run` in any thread.

    RocketMQ's own `checkpoint` is brought up to date too, for its tools. `no_room`: why the state
    was not written, "" when it was: on a full disk the one before stays, and is as good.
    """

    def __init__(
        self,
        files: FileSystem,
        layout: StoreLayout,
        state: CapturedState,
        derived: DerivedSync,
        store_ms: int,
        before: Callable[[], None] | None = None,
    ) -> None:
        """`before`: work that must be on disk before the state is."""
        self._files, self._layout = files, layout
        self._state, self.derived, self._store_ms = state, derived, store_ms
        self._before = before
        self.no_room = ""
        #: The key index was not written; `DerivedFiles.again` is to be told.
        self.again = False

    def run(self) -> None:
        """Raises OSError."""
        self.derived.sync_queues()
        try:
            self.derived.allocate_blocks()
        except OSError as error:
            self._full(error)
            self.again = True
            return
        self.derived.sync_index()
        try:
            if self._before is not None:
                self._before()
            self.derived.write_mark()
            self._write()
        except OSError as error:
            self._full(error)

    def _full(self, error: OSError) -> None:
        if not is_out_of_space(error):
            raise error
        self.no_room = str(error)

    def _write(self) -> None:
        layout, mark = self._layout, self.derived.mark
        self._files.write_atomic(
            layout.root / FILE_NAME, encode(self._state.encode()), staging=layout.staging
        )
        index_ms = self.derived.index.full_time_ms if self.derived.index is not None else 0
        times = Checkpoint(self._store_ms, self._store_ms, index_ms, 0, mark.position)
        write_checkpoint(self._files, layout, times)


def encode(state: bytes) -> bytes:
    """The bytes of the file: a head with the checksum, and the state."""
    return _HEAD.pack(_MAGIC, VERSION, crc32(state), len(state)) + state


def load(files: FileSystem, path: Path, restore: Callable[[bytes], None]) -> bool:
    """Give the saved state to `restore`; False when there is none that can be used."""
    if not files.exists(path):
        return False
    data = files.read(path)
    try:
        magic, version, crc, size = _HEAD.unpack_from(data)
        state = data[_HEAD.size :]
        if magic == _MAGIC and crc32(state) == crc:
            refuse_later("it", version, VERSION)
        if magic != _MAGIC or version != VERSION or len(state) != size or crc32(state) != crc:
            raise ValueError("magic, version, size or checksum is wrong")
        restore(state)
    except (ValueError, KeyError, TypeError, struct.error, LaterVersion) as error:
        why = error.happened if isinstance(error, LaterVersion) else error
        _log.warning("%s cannot be used (%s); all is derived from the log again", path, why)
        return False
    return True
