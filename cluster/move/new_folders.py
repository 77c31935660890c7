"""New folders of nodes: whole under their own name, or not there at all.

    DIR/.restoring/…  ─► closed, synced ─► its files move up, `identity` last ─► DIR is a node

A program takes a folder without `identity` for one that was never formatted, so it starts on none
that is half made. An error takes back what was made; a process that is killed leaves `.restoring`,
which the next restore or import into the same folder removes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.move.errors import FolderBusy, FolderLeft
from commitlog.files.system import FileSystem
from dledger.durable import identity
from dledger.log.node_storage import LOCK_NAME

STAGING = ".restoring"
#: What moves up from the staging folder; the last one makes the folder a node's.
_PARTS = (
    *("data", "index", "staging", "snapshots", "hardstate", "flushmark", "truncate"),
    *("configurations", "logstart", "logstart.bak", "currterm", "checkpoint", LOCK_NAME),
    identity.FILE_NAME,
)


def is_new(folder: Path) -> bool:
    """Is the folder not there, empty, or left behind by a restore that was killed?"""
    if not folder.exists():
        return True
    if not folder.is_dir():
        return False
    below = list(folder.iterdir())
    if (folder / STAGING).is_dir():
        return _is_half_made(folder, [path.name for path in below])
    return all(path.is_dir() and not path.is_symlink() and is_new(path) for path in below)


def _is_half_made(folder: Path, names: Sequence[str]) -> bool:
    return not (folder / identity.FILE_NAME).exists() and set(names) <= {STAGING, *_PARTS}


def clear(folder: Path, files: FileSystem) -> None:
    """Remove the rest of a killed restore from a folder and from those directly below it.

    Raises FolderBusy while that restore still runs, OSError.
    """
    below = sorted(folder.iterdir()) if folder.is_dir() else []
    for one in (folder, *below):
        staging = one / STAGING
        if not staging.is_dir() or staging.is_symlink():
            continue
        if not _is_half_made(one, files.list(one)):
            continue
        _refuse_running(staging, files)
        for name in (STAGING, *_PARTS):  # last the name by which a part is known to be ours
            if name != STAGING:
                _remove(one / name)
        _remove(staging)
        if one != folder:
            one.rmdir()


def _refuse_running(staging: Path, files: FileSystem) -> None:
    try:
        files.lock(staging / LOCK_NAME).release()
    except BlockingIOError:
        raise FolderBusy(
            f"another restore or import is at work in {staging.parent}; let it end, or name "
            "another folder"
        ) from None


def move_up(folders: Sequence[Path], files: FileSystem) -> None:
    """Make each folder a node's: its parts move up, in all of them before the first `identity`.

    Raises OSError.
    """
    for name in _PARTS:
        for folder in folders:
            if files.exists(folder / STAGING / name):
                if name == identity.FILE_NAME:
                    files.sync_dir(folder)
                files.rename(folder / STAGING / name, folder / name)
    for folder in folders:
        files.sync_dir(folder)
        _remove(folder / STAGING)
        files.sync_dir(folder)


@contextmanager
def all_or_nothing(folders: Sequence[Path]) -> Iterator[None]:
    """Take back all that the work within has made in these folders when it ends with an error.

    Folders that were not there go, too. Raises FolderLeft, which names what could not be removed.
    """
    before = {folder: _names(folder) for folder in folders}
    missing = {path for folder in folders for path in _missing(folder)}
    try:
        yield
    except BaseException as error:
        left = list[Path]()
        for folder, names in before.items():
            for name in _names(folder) - names:
                try:
                    _remove(folder / name)
                except OSError:
                    left.append(folder / name)
        for path in sorted(missing, key=lambda path: len(path.parts), reverse=True):
            if path.is_dir() and not _names(path):
                path.rmdir()
        if left:
            raise FolderLeft(
                f"{error}; it left {', '.join(map(str, left))} behind, which could not be removed: "
                "remove it, then run this again"
            ) from error
        raise


def _missing(folder: Path) -> Iterator[Path]:
    while not folder.exists():
        yield folder
        folder = folder.parent


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
