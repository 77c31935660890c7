"""The beginning of a log without its first entries, and the entry before it.

    <folder>/logstart    {"chain_crc": 7, "configuration": "{…}", "emptied": false, "end": 1048312,
                          "index": 999, "position": 1048576, "term": 4}
                         crc32 <8 hex digits>            both lines twice: one copy may rot
    <folder>/logstart.bak    the same: either file may be lost

Without both the log begins where the folder's identity says. Entry `index` of `term` is the
last one that is gone and ended at address `end`; the record behind it begins a data file, at
`position`, and the bytes between the two were a blank. `configuration` is the group as entry
`index` left it (R20).

The file is written first, whole or not at all; then data files below `position` are unlinked,
oldest first, each followed by a sync of the folder. With `emptied` all data files go, and the log
begins anew, empty, behind `index`: a replica that takes another one's beginning. A crash anywhere
leaves either the old file (nothing was touched) or a deletion that recovery carries out.

`logstart.bak` is written behind `logstart` and never with `emptied`, which is for a moment. A log's
beginning only moves on, so the whole copy with the greatest index counts, and a start writes what
is missing or older anew. What a start must not believe is told by `lost`: a log that begins later
than any copy says has entries, and changes of its group, that this node knows nothing of (R20).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from commitlog.files.system import FileSystem, is_out_of_space
from commitlog.segments.next_file import is_segment_name
from dledger.core.types import EntryId, Index, Term
from dledger.core.value import value
from dledger.durable import small_files, two_copies
from dledger.errors import LogDamaged
from dledger.log.check import Tail
from dledger.log.options import LogOptions
from dledger.versions import refuse_other_fields

FILE_NAMES = FILE_NAME, SECOND_NAME = "logstart", "logstart.bak"
#: Folder of the states, each named by the position where the log may begin behind it (R15).
STATES_FOLDER = "snapshots"


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
    """Durable when this returns. Raises OSError; on a full disk the second file may stay older."""
    files.write_atomic(folder / FILE_NAME, _content(start), staging=staging)
    if not start.emptied:
        settle(files, folder, start, staging=staging)


def settle(files: FileSystem, folder: Path, start: LogStart, *, staging: Path) -> None:
    """Write each of both files anew that is lost or older, durably. Raises OSError.

    `start`: as `read` found it, not `emptied`. A full disk leaves them as they are.
    """
    content = _content(start)
    try:
        for name in FILE_NAMES:
            path = folder / name
            if not files.exists(path) or files.read(path) != content:
                files.write_atomic(path, content, staging=staging)
    except OSError as error:
        if not is_out_of_space(error):
            raise


def _content(start: LogStart) -> bytes:
    return two_copies.sign(json.dumps(asdict(start), sort_keys=True).encode()) * 2


def read(files: FileSystem, folder: Path) -> LogStart | None:
    """The log's beginning, by the newest copy; None: no entry was ever deleted, or `lost` says so.

    Raises LogDamaged when there is a file and no copy is whole, LaterVersion, OSError.
    """
    there = [name for name in FILE_NAMES if files.exists(folder / name)]
    found = [start for name in there for start in copies(files, folder, name)]
    if found:
        return max(found, key=lambda start: start.index)
    if there:
        raise LogDamaged(
            f"no copy in {folder / FILE_NAME} or {SECOND_NAME} is whole, and the log begins where "
            "they say; keep every file as it is and rebuild this replica from its peers or a backup"
        )
    return None


def copies(files: FileSystem, folder: Path, name: str) -> list[LogStart]:
    """Whole copies in one of the files. Raises LaterVersion, OSError."""
    found = []
    for line in texts(files, folder, name):
        if line is not None:
            values: dict[str, Any] = json.loads(line)
            refuse_other_fields(folder / name, values, _NEEDED, _OPTIONAL)
            found.append(LogStart(**values))
    return found


def texts(files: FileSystem, folder: Path, name: str) -> list[bytes | None]:
    """The text of each copy in one of the files, None for one that is not whole. Raises OSError."""
    return two_copies.copies(files.read(folder / name), two_copies.signed, 2)


def lost(
    files: FileSystem,
    folder: Path,
    start: LogStart | None,
    *,
    first_position: int,
    first_index: int,
) -> str:
    """Why the log begins later than `start`, as `read` found it; "" when it does not. Only reads.

    `first_position`, `first_index`: where the log began when it was made. Raises LaterVersion,
    OSError, struct.error.

    A log that is empty behind a later entry says so in its flush mark. Else the first file is gone,
    and either it was deleted by hand, or by the log itself, whose beginning was then written down
    in a file that is lost or older now. The log itself keeps the state before its first file, and
    drops the states before it: so the first file was deleted by hand where that state is here, or
    where no state ever was. Without the state, and with a later one, no file tells which it was.
    """
    begin, first = first_position, first_index
    if start is not None:
        if start.emptied:  # files and mark may be those of the log before
            return ""
        begin, first = start.position, start.index + 1
    mark = small_files.mark(files, folder)
    if mark is not None and mark.position < 0:
        return f"it was empty behind entry {mark.index}" if mark.index >= first else ""
    there = positions(files, folder / "data")
    states = positions(files, folder / STATES_FOLDER)
    if begin in (*there, *states) or not states or states[-1] < begin:
        return ""
    what = (
        f"its first file is that of {there[0]}, not of {begin}" if there else "its files are gone"
    )
    return f"{what}, and a state stands at {states[-1]}"


def positions(files: FileSystem, folder: Path) -> list[int]:
    """Positions by which the files of a folder are named, ascending. Raises OSError."""
    if not files.is_dir(folder):
        return []
    return sorted(int(name) for name in files.list(folder) if is_segment_name(name))


def refuse_lost(
    files: FileSystem, folder: Path, start: LogStart | None, options: LogOptions
) -> None:
    """Before a start touches anything. Raises LogDamaged with the reason that `lost` gives."""
    why = lost(
        files,
        folder,
        start,
        first_position=options.first_position,
        first_index=options.first_index,
    )
    if why:
        raise LogDamaged(f"{folder / FILE_NAME} {told_lost(why)}")


def told_lost(why: str) -> str:
    """The sentence behind the file's name, for the reason that `lost` gives."""
    return (
        f"and {SECOND_NAME} are lost or older than the log ({why}), so this node knows neither "
        "its first entries nor its group and does not start; put back what is lost, or "
        "rebuild this replica from its peers or a backup"
    )


def unlink(files: FileSystem, folder: Path, names: Iterable[str]) -> None:
    """Remove files of one folder in this order, so that a crash leaves no gap. Raises OSError.

    Those that a killed process has removed may still come back: the folder is synced in any case.
    """
    for name in names:
        files.remove(folder / name)
        files.sync_dir(folder)
    files.sync_dir(folder)
