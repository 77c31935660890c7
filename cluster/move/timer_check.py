"""`config/timercheck`: how far a RocketMQ broker is with its timer messages.

Source: docs/spec/store.md 7.2.

    last read time (8) | timer log flushed (8) | timer queue offset (8) | master's queue offset (8)
    | stateVersion (8) | timestamp (8) | counter (8) | zeros up to 4096

Times in ms. Without its other timer files, which we do not write, a broker reads the timer queue
from that offset on and delivers what is there, at once when its time is over. So the offset is
that of the oldest timer that waits; one behind it that was delivered already comes twice there.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from cluster.core.apply import AppliedState
from cluster.core.delay.delayed import TIMER_LEVEL
from commitlog.files.system import FileSystem
from commitlog.records.names import TIMER_TOPIC
from commitlog.store.layout import StoreLayout

FILE_NAME: Final = "timercheck"
FILE_SIZE: Final = 4096
_NUMBERS = struct.Struct(">7q")


def write_timer_check(state: AppliedState, out: Path, files: FileSystem) -> None:
    """For a store that has timer messages; others need none. Raises OSError."""
    (end,) = state.queue_ends(TIMER_TOPIC, 1)
    if not end:
        return
    delayed = state.delayed
    offset = delayed.first_offsets().get(TIMER_LEVEL, end)
    read_ms = min(delayed.first_wheel_ms(), state.store_ms)
    data = _NUMBERS.pack(read_ms, 0, offset, offset, 0, state.store_ms, 1)
    layout = StoreLayout(out)
    files.make_dirs(layout.config)
    files.make_dirs(layout.staging)
    path = layout.config / FILE_NAME
    files.write_atomic(path, data.ljust(FILE_SIZE, b"\0"), staging=layout.staging)


def read_timer_check(folder: Path, files: FileSystem) -> int:
    """The time up to which timers of the wheel are delivered; 0 if the file is missing."""
    path = folder / FILE_NAME
    data = files.read(path) if files.exists(path) else b""
    return int(_NUMBERS.unpack_from(data)[0]) if len(data) >= _NUMBERS.size else 0
