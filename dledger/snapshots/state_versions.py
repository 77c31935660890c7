"""States in a node's folder that a later release wrote, by their heads (snapshot_files.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.log.log_start import STATES_FOLDER
from dledger.snapshots.file_head import DATA_AT, VERSION, is_right, read_head
from dledger.versions import refuse_later

FOLDER, RECENT = STATES_FOLDER, "recent"


def paths(files: FileSystem, folder: Path) -> Iterator[Path]:
    """All states of the node in `folder`, and parts of one that is sent; folders are none."""
    names = files.list(folder / FOLDER) if files.is_dir(folder / FOLDER) else []
    for path in (folder / FOLDER / name for name in names):
        if (path.name[:1].isdigit() or path.name == RECENT) and not files.is_dir(path):
            yield path


def refuse_later_state(files: FileSystem, path: Path) -> None:
    """Raises LaterVersion for a state, or a part of one, that a later release wrote; OSError.

    One that is right but for its version, which rotted, is none; nor is one that is gone.
    """
    try:
        with closing(files.open(path, writable=False)) as file:
            head = read_head(file)
            if head is None or not VERSION < head.version < 1 << 8:
                return
            if not is_right(file, head):
                refuse_later("the state", head.version, VERSION)
    except FileNotFoundError:
        return


def beginning_of(files: FileSystem, path: Path, size: int | None = None) -> bytes:
    """The first bytes of a state, or all, unproven; none for one that is gone. Raises OSError."""
    try:
        with closing(files.open(path, writable=False)) as file:
            return file.pread(max(0, file.size - DATA_AT) if size is None else size, DATA_AT)
    except FileNotFoundError:
        return b""
