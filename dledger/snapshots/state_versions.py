"""States in a node's folder that a later release wrote, by their heads (snapshot_files.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from commitlog.files.system import File, FileSystem
from commitlog.records.checksum import crc32
from dledger.versions import refuse_later

FOLDER, RECENT = "snapshots", "recent"
MAGIC, VERSION = b"DLSS", 1
_HEAD_SIZE, _DATA_AT = 48, 52
_PIECE = 1 << 20


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
            head = file.pread(_DATA_AT, 0)
            version = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 4], "big")
            if head[: len(MAGIC)] != MAGIC or not VERSION < version < 1 << 8:
                return
            known = MAGIC + VERSION.to_bytes(4, "big") + head[len(MAGIC) + 4 :]
            if not _is_of_file(file, known):
                refuse_later("the state", version, VERSION)
    except FileNotFoundError:
        return


def beginning_of(files: FileSystem, path: Path, size: int | None = None) -> bytes:
    """The first bytes of a state, or all, unproven; none for one that is gone. Raises OSError."""
    try:
        with closing(files.open(path, writable=False)) as file:
            return file.pread(max(0, file.size - _DATA_AT) if size is None else size, _DATA_AT)
    except FileNotFoundError:
        return b""


def _is_of_file(file: File, head: bytes) -> bool:
    """Does the file have the checksum that its head says? Read in pieces: none is kept."""
    crc, at = crc32(head[:_HEAD_SIZE]), _DATA_AT
    while data := file.pread(_PIECE, at):
        crc, at = crc32(data, crc), at + len(data)
    return head[_HEAD_SIZE:] == crc.to_bytes(4, "big")
