"""Files of a node's folder that a later release wrote: looked for before one byte is written.

    identity  hardstate  flushmark  truncate  logstart  logstart.bak  configurations  generations
    peers.json
    snapshots/<20 digits>  snapshots/<20 digits>.<20 digits>  snapshots/recent

A start repairs, removes and writes over what it takes for damage, file after file. So it asks here
first, and every tool that reads the folder asks here, too: all give the same answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from commitlog.files.system import FileSystem
from dledger.durable import configurations, flush_mark, hard_state, identity, truncate_intent
from dledger.durable.double_slot import read_payload
from dledger.errors import LaterVersion, NodeFailed
from dledger.log import log_start
from dledger.membership import generations, incarnations
from dledger.snapshots import state_versions

_SLOTS: tuple[tuple[str, Callable[[bytes], object]], ...] = (
    (hard_state.FILE_NAME, hard_state.decode),
    (flush_mark.FILE_NAME, flush_mark.decode),
    (truncate_intent.FILE_NAME, truncate_intent.decode),
)


class LaterFile(NamedTuple):
    """A file, and the error that says which release can read it."""

    path: Path
    error: LaterVersion


def refuse_later_files(files: FileSystem, folder: Path) -> None:
    """Raises LaterVersion, which names the file, if a later release wrote one here; OSError."""
    for found in later_files(files, folder):
        happened = found.error.happened
        named = happened if str(found.path) in happened else f"{found.path}: {happened}"
        raise LaterVersion(named) from found.error


def later_files(files: FileSystem, folder: Path) -> Iterator[LaterFile]:
    """All of them; a damaged file is none. Only reads. Raises OSError."""
    readers: tuple[tuple[str, Callable[[], object]], ...] = (
        (identity.FILE_NAME, lambda: identity.read(files, folder)),
        *((name, partial(_decoded, files, folder / name, decode)) for name, decode in _SLOTS),
        *((name, partial(log_start.copies, files, folder, name)) for name in log_start.FILE_NAMES),
        (configurations.FILE_NAME, lambda: configurations.look(files, folder)),
        (generations.FILE_NAME, lambda: generations.read_fields(files, folder)),
        (incarnations.FILE_NAME, lambda: incarnations.read_known(files, folder)),
    )
    for name, read in readers:
        if files.exists(folder / name) and not files.is_dir(folder / name):
            try:
                read()
            except LaterVersion as error:
                yield LaterFile(folder / name, error)
            except (NodeFailed, ValueError, struct.error, OSError):
                continue  # damaged, not to be read, or gone by now: for others to tell
    for path in state_versions.paths(files, folder):
        try:
            state_versions.refuse_later_state(files, path)
        except LaterVersion as error:
            yield LaterFile(path, error)


def _decoded(files: FileSystem, path: Path, decode: Callable[[bytes], object]) -> None:
    payload = read_payload(files, path)
    if payload is not None:
        decode(payload)
