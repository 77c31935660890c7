"""The small files with two slots of a stopped node, for tools and a start: which of them are lost?

    hardstate      term and vote           both slots say the same (R7)
    flushmark      what the log must hold  (R1)
    truncate       a truncation under way  (R11)

One slot of a pair may be torn by a crash; none may be when the other is torn, too. Nothing is
written. What else may be wrong with a folder is told by `dledger.runtime.folder_check`.
"""

from __future__ import annotations

from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.durable import flush_mark, hard_state, truncate_intent
from dledger.durable.double_slot import is_later, read_payload, slots_of


def lost(files: FileSystem, folder: Path) -> tuple[str, ...]:
    """Names of those files with two slots that are gone, or neither slot of which is valid."""
    return tuple(
        name
        for name in (hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME)
        if not any(slots_of(data := content(files, folder / name))) and not is_later(data)
    )


def mark(files: FileSystem, folder: Path) -> flush_mark.Mark | None:
    """How far the log of a node is known to be on disk, without a write; None when it is lost.

    Raises LaterVersion, OSError.
    """
    payload = read_payload(files, folder / flush_mark.FILE_NAME)
    return None if payload is None else flush_mark.decode(payload)


def content(files: FileSystem, path: Path) -> bytes:
    """Bytes of a file, none of one that is missing. Raises OSError."""
    return files.read(path) if files.exists(path) else b""
