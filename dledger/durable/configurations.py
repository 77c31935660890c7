"""Where in the log the group was changed, and how: known at a start without reading the log (R20).

    <folder>/configurations    {"copies": [[41, 3, "{…}"]], "indexes": [41, 977]}
                               crc32 <8 hex digits>         both lines twice: one copy may rot

A place is noted, durably, *before* its entry is written, so every configuration in the log is in
the file; what else is in it was never written or was truncated, and shows so when its body is read.
A copy says what the entry of that index and that term holds, for when the entry is damaged: a node
must know whom to ask for it. A folder without the file (made by an earlier version, or both copies
rotted) has its log read once from end to end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer, FileSystem, is_out_of_space
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.types import Index, Term
from dledger.core.value import value
from dledger.durable import two_copies
from dledger.log.port import LogStore
from dledger.versions import refuse_other_fields

FILE_NAME = "configurations"

#: The configuration in an entry's body, None when it is another entry.
Decode = Callable[[Buffer], Configuration | None]


@value
class Codec:
    """Configurations as bodies of entries, and as the text of copies."""

    decode: Decode
    to_text: Callable[[Configuration], bytes]
    of_text: Callable[[bytes], Configuration]


class Copy(NamedTuple):
    """A copy of a configuration entry; valid only for the entry of this index and term."""

    index: int  # type: ignore[assignment]  # hides tuple.index, as in EntryId
    term: int
    text: str


class _Noted(NamedTuple):
    indexes: list[int]
    copies: list[Copy]


def create(files: FileSystem, folder: Path, *, staging: Path) -> None:
    """An empty log holds none."""
    _write(files, folder, _Noted([], []), staging)


def look(files: FileSystem, folder: Path) -> None:
    """Raises LaterVersion for a file that a later release wrote, OSError."""
    _read(files, folder)


def newest_copy(files: FileSystem, folder: Path) -> bytes | None:
    """The text of the group's newest configuration that was noted; it may have been truncated.

    Raises LaterVersion, OSError.
    """
    noted = _read(files, folder)
    if noted is None or not noted.copies:
        return None
    return noted.copies[-1].text.encode()


class ConfigurationFile:
    """`entries`: the configurations of the log as it was opened, oldest first."""

    def __init__(
        self, files: FileSystem, folder: Path, log: LogStore, codec: Codec, *, staging: Path
    ) -> None:
        """Raises LaterVersion, OSError, StoreDamaged when an entry that may be one is damaged."""
        self._files, self._folder, self._staging = files, folder, staging
        self._codec = codec
        noted = _read(files, folder)
        self.entries = list(_found(log, codec, noted))
        self._noted = _Noted(
            [int(entry.index) for entry in self.entries],
            [self._copy(entry, log.id_of(entry.index).term) for entry in self.entries],
        )
        if noted is None or not set(self._noted.copies) <= set(noted.copies):
            self._keep(self._noted)

    def note(self, entry: ConfigurationEntry, term: Term) -> None:
        """This entry is about to be written; durable when this returns. Raises OSError.

        A full disk has no space for the new file; then the old one goes, and the next start reads
        the log from end to end. No start may believe a file that leaves a configuration out.
        """
        indexes = [known for known in self._noted.indexes if known < entry.index]
        copies = [known for known in self._noted.copies if known.index < entry.index]
        noted = _Noted([*indexes, int(entry.index)], [*copies, self._copy(entry, term)])
        if not self._keep(noted) and self._files.exists(self._folder / FILE_NAME):
            self._files.remove(self._folder / FILE_NAME)
            self._files.sync_dir(self._folder)
        self._noted = noted

    def _keep(self, noted: _Noted) -> bool:
        """Write the file; False when a full disk has no space for it, and it is as it was."""
        try:
            _write(self._files, self._folder, noted, self._staging)
        except OSError as error:
            if not is_out_of_space(error):
                raise
            return False
        return True

    def _copy(self, entry: ConfigurationEntry, term: Term) -> Copy:
        assert entry.configuration is not None, "its body was read before it is noted"
        text = self._codec.to_text(entry.configuration).decode()
        return Copy(int(entry.index), int(term), text)


def _found(log: LogStore, codec: Codec, noted: _Noted | None) -> Iterable[ConfigurationEntry]:
    first, last = log.first_index, log.last.index
    if noted is None:
        for entry in log.entries(first, last) if first <= last else ():
            configuration = codec.decode(entry.body)
            if configuration is not None:
                yield ConfigurationEntry(Index(entry.header.sequence), configuration)
        return
    for index in sorted(noted.indexes):
        if first <= index <= last:
            configuration = _configuration(log, Index(index), codec, noted.copies)
            if configuration is not None:
                yield ConfigurationEntry(Index(index), configuration)


def _configuration(
    log: LogStore, index: Index, codec: Codec, copies: Iterable[Copy]
) -> Configuration | None:
    """The configuration in the entry at `index`; from its copy when the entry is damaged.

    The entry that stands there is another one when its term is not that of the copy: it has taken
    the place of the one that was noted, and is no configuration, since none of it was noted.
    """
    try:
        return codec.decode(log.entry(index).body)
    except StoreDamaged:
        term = log.id_of(index).term
        for copy in copies:
            if copy.index == index:
                return codec.of_text(copy.text.encode()) if copy.term == term else None
        raise


def _read(files: FileSystem, folder: Path) -> _Noted | None:
    path = folder / FILE_NAME
    if not files.exists(path):
        return None
    for line in texts(files, folder):  # one, in a file of an earlier version
        if line is not None:
            values = json.loads(line)
            refuse_other_fields(path, values, ("indexes",), ("copies",))
            copies = [Copy(*copy) for copy in values.get("copies", ())]
            return _Noted([int(index) for index in values["indexes"]], copies)
    return None


def texts(files: FileSystem, folder: Path) -> list[bytes | None]:
    """The text of each copy, None for one that is not whole. Raises OSError."""
    return two_copies.copies(files.read(folder / FILE_NAME), two_copies.signed, 2)


def _write(files: FileSystem, folder: Path, noted: _Noted, staging: Path) -> None:
    line = json.dumps(noted._asdict(), sort_keys=True).encode()
    files.write_atomic(folder / FILE_NAME, two_copies.sign(line) * 2, staging=staging)
