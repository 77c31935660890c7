"""A backup that `dledger backup` made, as stretches of a log (cluster/backup/manifest.py).

    <place>/<group>/MANIFEST.json                     which of the files count
                    log/<20 digits>-<20 digits>       bytes of the log, from one address to another

A stretch is the part of such a file that was in one file of the node's log: it begins with an
entry, or with the blank that the log's file ended with, and has a blank at its end alone. All of a
backup is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from commitlog.errors import StoreUsageError
from commitlog.files.system import FileSystem

if TYPE_CHECKING:
    from cluster.backup.manifest import Manifest

_MANIFEST, _LOG = "MANIFEST.json", "log"


class Stretch(NamedTuple):
    """A part of a file. `position`: address of the file's first byte; `begin`, `end`: offsets."""

    path: Path
    position: int
    begin: int
    end: int


class Backup(NamedTuple):
    """One group's. `folder`: has the manifest and the files."""

    folder: Path
    manifest: Manifest

    @property
    def last_index(self) -> int:
        """Index of the last entry, which is committed, like all entries of a backup."""
        return self.manifest.mark

    def parts(self, start_index: int, end_index: int) -> Iterator[Stretch]:
        """In the order of the log; files without an entry within the bounds (-1: none; the end
        excluded) are left out."""
        size = self.manifest.log.data_file_size
        for piece in self.manifest.pieces:
            if piece.last < start_index or 0 <= end_index <= piece.first:
                continue
            at = piece.position
            while at < piece.end:  # each turn ends where a file of the log does
                stop = min(at - at % size + size, piece.end)
                path = self.folder / piece.name
                yield Stretch(path, piece.position, at - piece.position, stop - piece.position)
                at = stop


def backup_at(files: FileSystem, path: Path) -> Backup | None:
    """The backup in the folder of a group, or in a place that has one group's; None for none.

    Raises StoreUsageError when the place has several groups', BackupDamaged.
    """
    folder = path
    if not _is_backup(files, path):
        if any(files.is_dir(path / name) for name in ("data", "commitlog", "config")):
            return None  # a store, as most are: its folders need not be looked at
        groups = [name for name in files.list(path) if _is_backup(files, path / name)]
        if not groups:
            return None
        if len(groups) > 1:
            raise StoreUsageError(
                f"{path} has the backups of several groups ({', '.join(groups)}); name the folder "
                "of one"
            )
        folder = path / groups[0]
    # Executors need not have what reads a manifest: they get the stretches.
    from cluster.backup.manifest import decode

    name = folder / _MANIFEST
    return Backup(folder, decode(files.read(name), str(name)))


def _is_backup(files: FileSystem, folder: Path) -> bool:
    return files.is_dir(folder / _LOG) and files.exists(folder / _MANIFEST)
