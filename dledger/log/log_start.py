"""The beginning of a log without its first entries, and the entry before it.

    <folder>/logstart    {"chain_crc": 7, "configuration": "{…}", "emptied": false, "end": 1048312,
                          "index": 999, "position": 1048576, "term": 4}
                         crc32 <8 hex digits>            both lines twice: one copy may rot

Without the file the log begins where the folder's identity says. Entry `index` of `term` is the
last one that is gone and ended at address `end`; the record behind it begins a data file, at
`position`, and the bytes between the two were a blank. `configuration` is the group as entry
`index` left it (R20).

The file is written first, whole or not at all; then data files below `position` are unlinked,
oldest first, each followed by a sync of the folder. With `emptied` all data files go, and the log
begins anew, empty, behind `index`: a replica that takes another one's beginning. A crash anywhere
leaves either the old file (nothing was touched) or a deletion that recovery carries out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from commitlog.files.system import FileSystem
from dledger.core.types import EntryId, Index, Term
from dledger.core.value import value
from dledger.durable import two_copies
from dledger.errors import LogDamaged
from dledger.log.check import Tail
from dledger.versions import refuse_other_fields

FILE_NAME = "logstart"


@value
class LogStart:
    """The anchor of a log: the entry before its first one, and where that one begins."""

    term: Term
    index: Index
    chain_crc: int
    end: int
    position: int
    configuration: str = ""
    emptied: bool = False

    @property
    def anchor(self) -> EntryId:
        """Term and index of the entry before the first one, which is not in the log."""
        return EntryId(self.term, self.index)

    @property
    def tail(self) -> Tail:
        """The end of the last deleted record, as the log had it: a blank may come behind it."""
        return Tail(self.anchor, self.chain_crc, self.end)

    @property
    def in_files(self) -> Tail:
        """The same for readers of the files, which begin with the record behind it."""
        return Tail(self.anchor, self.chain_crc, self.position)


_OPTIONAL = "configuration", "emptied"
_NEEDED = [field.name for field in fields(LogStart) if field.name not in _OPTIONAL]


def write(files: FileSystem, folder: Path, start: LogStart, *, staging: Path) -> None:
    """Durable when this returns. Raises OSError."""
    line = json.dumps(asdict(start), sort_keys=True).encode()
    files.write_atomic(folder / FILE_NAME, two_copies.sign(line) * 2, staging=staging)


def read(files: FileSystem, folder: Path) -> LogStart | None:
    """The log's beginning; None: no entry was ever deleted.

    Raises LogDamaged when neither copy is whole, LaterVersion.
    """
    path = folder / FILE_NAME
    if not files.exists(path):
        return None
    for line in texts(files, folder):
        if line is not None:
            values: dict[str, Any] = json.loads(line)
            refuse_other_fields(path, values, _NEEDED, _OPTIONAL)
            return LogStart(**values)
    raise LogDamaged(
        f"neither copy in {path} is whole, and the log begins where it says; keep every file as it "
        "is and rebuild this replica from its peers or a backup"
    )


def texts(files: FileSystem, folder: Path) -> list[bytes | None]:
    """The text of each copy, None for one that is not whole. Raises OSError."""
    return two_copies.copies(files.read(folder / FILE_NAME), two_copies.signed, 2)


def unlink(files: FileSystem, folder: Path, names: Iterable[str]) -> None:
    """Remove files of one folder in this order, so that a crash leaves no gap. Raises OSError.

    Those that a killed process has removed may still come back: the folder is synced in any case.
    """
    for name in names:
        files.remove(folder / name)
        files.sync_dir(folder)
    files.sync_dir(folder)
