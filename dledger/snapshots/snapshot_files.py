"""States of the machine at the beginnings of log files, so that older files can be deleted.

    <folder>/snapshots/<20 digits>               the state where the log file of that address begins
    <folder>/snapshots/<20 digits>.<20 digits>   a part of one that a leader sends, from that offset
    <folder>/snapshots/recent                    the newest that was saved between two beginnings

Each begins with a head, which file_head.py draws, and is written whole or not at all. Parts are
kept one by one, so that a receiver that is killed goes on behind the last one; when they are
complete and the whole has the right checksum they become one file, and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.content import Known, Streamed, content_parts
from commitlog.files.system import Buffer, File, FileSystem
from commitlog.records.checksum import crc32
from dledger.log.log_start import LogStart
from dledger.snapshots.file_head import DATA_AT, VERSION, is_right, packed, read_head
from dledger.snapshots.pace import AT_ONCE, Pace, pieces
from dledger.snapshots.snapshot import Part, Snapshot, snapshot_of
from dledger.snapshots.state_file import Joined, Named, StateFile, Summed
from dledger.snapshots.state_versions import FOLDER as FOLDER
from dledger.snapshots.state_versions import RECENT as _RECENT

_DIGITS = 20  # of an address in a name
_HALF = ".tmp"  # behind a name in the staging folder, as `write_atomic` makes it
#: A state, whole or as parts; an iterator gives them once.
Saved = Known | Iterator[Buffer]


class _Receiving(NamedTuple):
    """A state that a leader is sending: how many bytes are here, in which files, their checksum."""

    position: int
    wanted: Snapshot
    have: int
    names: list[str]
    crc: int


class SnapshotFolder:
    """The files. Every call may run in any thread; calls about one position follow each other."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files, self._folder = files, folder / FOLDER
        self._staging = folder / "staging"
        self._receiving: _Receiving | None = None
        #: Positions of states that were read and found right in this process.
        self._proven: dict[int, Snapshot] = {}

    def save(self, start: LogStart, state: Saved, pace: Pace = AT_ONCE) -> None:
        """Durable when this returns. `state`: whole, or parts in order; an iterator's are asked
        for as they are written. Raises OSError, and an iterator's own errors.
        """
        self._proven.pop(start.position, None)
        self._save(_name(start.position), start, state, pace)

    def positions(self) -> list[int]:
        """Beginnings of log files with a state here, ascending addresses."""
        return sorted(int(name) for name in self._names() if name.isdigit())

    def load(self, start: LogStart) -> bytes:
        """The state where the log begins. Raises StoreDamaged when it is missing or damaged."""
        name = _name(start.position)
        part = self.read_part(name)
        self._proven.pop(start.position, None)
        if part is None or part.offset or part.snapshot != snapshot_of(start, [part.data]):
            raise _damaged(self._folder / name)
        self._proven[start.position] = part.snapshot
        return part.data

    def find(self, start: LogStart) -> StateFile:
        """As `load`, proven and not held in memory. Raises StoreDamaged."""
        self.doubt(start.position)
        return self.found(start)

    def found(self, start: LogStart) -> StateFile:
        """As `find`; of a state that this process has proven it reads the head alone."""
        return self._found(_name(start.position), self.prove(start))

    def find_recent(self, start: LogStart) -> StateFile:
        """The state by `save_recent`, proven and not held in memory.

        Raises StoreDamaged when it is missing, damaged, another.
        """
        return self._found(_RECENT, self._proved(self._folder / _RECENT, start, None))

    def _found(self, name: str, snapshot: Snapshot) -> StateFile:
        path = self._folder / name
        opened = partial(self._files.open, path, writable=False)
        return StateFile(opened, DATA_AT, snapshot.size, snapshot.crc)

    def save_recent(self, start: LogStart, state: Saved, pace: Pace = AT_ONCE) -> None:
        """As `save`, of a place where no file begins; takes the place of the one before."""
        self._save(_RECENT, start, state, pace)

    def recent(self) -> Snapshot | None:
        """Which state `save_recent` wrote, by its head alone; None: none, or half of it."""
        path = self._folder / _RECENT
        if not self._files.exists(path):
            return None
        with closing(self._files.open(path, writable=False)) as file:
            return _whole(file)

    def prove(self, start: LogStart, pace: Pace = AT_ONCE) -> Snapshot:
        """Raises StoreDamaged as `load`. Reads the state once in a process, later its head alone:
        a large one takes seconds, which the log's thread has not.
        """
        known = self._proven.get(start.position)
        snapshot = self._proved(self._folder / _name(start.position), start, known, pace)
        self._proven[start.position] = snapshot
        return snapshot

    def _proved(
        self, path: Path, start: LogStart, known: Snapshot | None, pace: Pace = AT_ONCE
    ) -> Snapshot:
        """The state in a file, read unless it is the `known` one. Raises StoreDamaged."""
        if not self._files.exists(path):
            raise _damaged(path)
        with closing(self._files.open(path, writable=False)) as file:
            head = read_head(file)
            if head is None or not head.is_whole(file.size):
                raise _damaged(path)
            snapshot = head.snapshot
            if snapshot[:3] != (start.term, start.index, start.chain_crc):
                raise _damaged(path)
            if known != snapshot and not is_right(file, head, pace):
                raise _damaged(path)
        return snapshot

    def damaged(self, but: int | None = None) -> list[Path]:
        """States without both their checksums, that of position `but` left out; reads all of each.

        A state that goes meanwhile, as a newer one takes its place, is none.
        """
        names = [_name(position) for position in self.positions() if position != but]
        found = []
        for path in (self._folder / name for name in (*names, _RECENT)):
            try:
                with closing(self._files.open(path, writable=False)) as file:
                    head = read_head(file)
                    if head is None or not (head.is_whole(file.size) and is_right(file, head)):
                        found.append(path)
            except FileNotFoundError:
                continue
        return found

    def part(self, start: LogStart, offset: int, size_max: int) -> Part:
        """At most `size_max` bytes of a state from `offset` on. Raises StoreDamaged.

        From its beginning where the state has no such place: a peer may have more of another
        leader's state, which had another size.
        """
        snapshot = self.prove(start)
        if not 0 <= offset <= snapshot.size:
            offset = 0
        path = self._folder / _name(start.position)
        size = min(size_max, snapshot.size - offset)
        with closing(self._files.open(path, writable=False)) as file:
            data = file.pread(size, DATA_AT + offset)
        if len(data) != size:
            raise _damaged(path)
        return Part(snapshot, offset, data)

    def doubt(self, position: int) -> None:
        """A peer found this state wrong: it is read before it is sent again."""
        self._proven.pop(position, None)

    def drop_before(self, position: int) -> None:
        """Remove states where no log file begins any more, and parts of them. Raises OSError."""
        for proven in list(self._proven):  # a copy: another thread may be proving a state
            if proven < position:
                self._proven.pop(proven, None)
        names = [name for name in self._names() if int(name[:_DIGITS]) < position]
        for name in names:
            self._files.remove(self._folder / name)
        if names:
            self._files.sync_dir(self._folder)

    # -- receiving ---------------------------------------------------------------------------------

    def receive(self, position: int, part: Part) -> tuple[int, bool]:
        """Keep the part if it is the next one; how many bytes are here, and whether that is all.

        Parts of another snapshot go; so do all of one whose checksum is wrong in the end. Raises
        OSError.
        """
        wanted = part.snapshot
        now = self._receiving
        if now is None or now[:2] != (position, wanted):
            whole = self.read_part(_name(position))
            if whole is not None and whole.snapshot == wanted:
                return wanted.size, True
            self._receiving = None  # its parts go now, whether this one can be kept or not
            now = self._parts(position, wanted)
        have, names, crc = now.have, now.names, now.crc
        if part.data and part.offset == have and have + len(part.data) <= wanted.size:
            name = f"{_name(position)}.{have:020}"
            self._write(name, wanted, have, [part.data])
            have, names, crc = have + len(part.data), [*names, name], crc32(part.data, crc)
        self._receiving = _Receiving(position, wanted, have, names, crc)
        if have < wanted.size:
            return have, False
        self._receiving = None
        right = crc == wanted.crc and self._join(position, wanted, names)
        self._drop_parts()
        return (have, True) if right else (0, False)

    def _join(self, position: int, wanted: Snapshot, names: Sequence[str]) -> bool:
        """All parts become one file, unless one was lost or harmed since it came."""
        parts = Named(names, partial(self._data_of, wanted))
        size, crc = 0, 0
        for data in parts:
            size, crc = size + len(data), crc32(data, crc)
        if (size, crc) != (wanted.size, wanted.crc):
            return False
        self._proven.pop(position, None)
        self._write(_name(position), wanted, 0, parts)
        return True

    def _parts(self, position: int, wanted: Snapshot) -> _Receiving:
        """The parts that are here, in order from the beginning; others are removed."""
        names: list[str] = []
        behind = crc = 0
        for name in self._names():
            if name.isdigit():
                continue
            part = self.read_part(name)
            if (
                int(name[:_DIGITS]) == position
                and part is not None
                and part[:2] == (wanted, behind)
            ):
                names.append(name)
                behind, crc = behind + len(part.data), crc32(part.data, crc)
            else:
                self._files.remove(self._folder / name)
        return _Receiving(position, wanted, behind, names, crc)

    def _drop_parts(self) -> None:
        for name in self._names():
            if not name.isdigit():
                self._files.remove(self._folder / name)
        self._files.sync_dir(self._folder)

    # -- files -------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Names of our own files; other files in the folder are left alone."""
        return [name for name in self._files.list(self._folder) if name[:_DIGITS].isdigit()]

    def drop_half_made(self) -> None:
        """Remove files of states that a process was killed over. Raises OSError."""
        for name in self._files.list(self._staging):
            if name.endswith(_HALF) and (name[:_DIGITS].isdigit() or name == _RECENT + _HALF):
                self._files.remove(self._staging / name)

    def _save(self, name: str, start: LogStart, state: Saved, pace: Pace) -> None:
        parts = state if isinstance(state, Iterator) else content_parts(state)
        came = Summed(pieces(parts, pace))  # one pass: all of a large one at once delays commands

        def head() -> bytes:
            of = Snapshot(start.term, start.index, start.chain_crc, came.crc, came.size)
            return packed(of, 0, came.size, came.crc)

        self._files.make_dirs(self._folder)
        content = Streamed(DATA_AT, came, head)
        self._files.write_atomic(self._folder / name, content, staging=self._staging)

    def _write(self, name: str, of: Snapshot, offset: int, parts: Sequence[Buffer]) -> None:
        self._files.make_dirs(self._folder)
        size, crc = 0, 0
        for part in parts:
            size, crc = size + len(part), crc32(part, crc)
        content = Joined([packed(of, offset, size, crc)], parts)
        self._files.write_atomic(self._folder / name, content, staging=self._staging)

    def _data_of(self, wanted: Snapshot, name: str) -> bytes:
        """Bytes of one part of a state; empty if it was lost or harmed since it came."""
        part = self.read_part(name)
        return part.data if part is not None and part.snapshot == wanted else b""

    def read_part(self, name: str) -> Part | None:
        """Read one part; None if it is missing or damaged."""
        path = self._folder / name
        if not self._files.exists(path):
            return None
        with closing(self._files.open(path, writable=False)) as file:
            head = read_head(file)
            state = file.pread(max(0, file.size - DATA_AT), DATA_AT)
        if head is None or head.version != VERSION or not head.is_of(len(state), crc32(state)):
            return None
        return Part(head.snapshot, head.offset, state)


def _whole(file: File) -> Snapshot | None:
    """The state that a file's head names, unproven; None for a part, or at another size."""
    head = read_head(file)
    return head.snapshot if head is not None and head.is_whole(file.size) else None


def _name(position: int) -> str:
    return f"{position:0{_DIGITS}}"


def _damaged(path: Path) -> StoreDamaged:
    return StoreDamaged(
        "the state that deleted entries led to is missing or damaged; rebuild this replica from "
        "its peers",
        path=str(path),
        position=0,
    )
