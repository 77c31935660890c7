"""A log that Java's DLedger 0.3 wrote: read it, or make it the log of one of our nodes.

    <folder>/data/<20 digits>  index/<20 digits>  currterm  checkpoint (or checkpoint.bak)

Java checks nothing on its disk, so what it would silently cut or serve is found here: all structure
checks of its own recovery, zeros in blanks, and checksums where there are any. Its log ends at the
first record that is not valid. That is the torn end of a killed process, unless the store itself
says more was there (the committed index, a later file that begins with a record, a later entry
anywhere behind): then it is damage, and refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commitlog.errors import StoreLayoutError
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY, RecordHeader, unpack_header
from commitlog.recovery.entry_walk import EntryWalk
from commitlog.segments.segment_log import SegmentLog
from dledger.core.types import NO_INDEX, NO_TERM, EntryId, HardState, Index, NodeId, Term
from dledger.durable import identity as identities
from dledger.durable.flush_mark import NO_MARK, Mark, MarkFile
from dledger.durable.hard_state import HardStateFile
from dledger.durable.identity import Identity
from dledger.durable.truncate_intent import IntentFile
from dledger.errors import LogDamaged
from dledger.log.check import ALL_ZERO_CRCS, SLOT, Tail
from dledger.log.cold import Piece, scan
from dledger.log.file_row import FileRow
from dledger.log.port import Entry

_MAGICS_OF_04 = (2, 3)
_LONG_DIGITS_MAX = 18  # all of them are far below 2^63


@dataclass(frozen=True, slots=True)
class JavaState:
    """Values of the text files beside the log; -1, -1 and None where they are missing."""

    term: Term
    voted_for: NodeId | None
    committed: Index


@dataclass(frozen=True, slots=True)
class JavaEnd:
    """Where the log ends, and why."""

    first: Index
    first_position: int
    last: EntryId
    last_position: int
    chain_crc: int
    end: int
    reason: str


class JavaStore:
    """The data files of one member, opened for reading."""

    def __init__(self, folder: Path, data_file_size: int, *, files: FileSystem = OS_FILES) -> None:
        """Raises StoreLayoutError when the files do not make a row."""
        self.folder, self._files = folder, files
        self._row = FileRow(
            files,
            folder / "data",
            data_file_size,
            staging=folder / "staging",
            writable=False,
        )
        self._row.load()

    def state(self) -> JavaState:
        """Term, vote and commit index from `currterm` and `checkpoint`."""
        term, vote = -1, ""
        # Java replaces the file in steps without a sync (W8): any of the three may be the newest.
        for name in ("currterm", "currterm.tmp", "currterm.bak"):
            values = self._values(name)
            found = _long(values.get("currTerm", ""))
            if found > term:
                term, vote = found, values.get("voteLeader", "")
        committed = -1
        for name in ("checkpoint", "checkpoint.bak"):
            if committed < 0:
                committed = _long(self._values(name).get("committedIndex", ""))
        return JavaState(Term(term), NodeId(vote) if vote else None, Index(committed))

    def _values(self, name: str) -> dict[str, str]:
        """The pairs of a text file; other lines, as after a crash, are left out."""
        path = self.folder / name
        if not self._files.exists(path):
            return {}
        lines = self._files.read(path).decode("utf-8", "replace").splitlines()
        return dict(line.strip().split("=", 1) for line in lines if "=" in line)

    def entries(self) -> Iterator[Entry]:
        """Every valid entry, in order."""
        for piece in self._pieces():
            for slot in piece.checked.slots:
                at = SLOT.unpack(slot)[1] - piece.start.end
                header = unpack_header(piece.data, at)
                yield Entry(header, piece.data[at + HEADER_SIZE : at + header.size])

    def end(self) -> JavaEnd:
        """Read the whole log. Raises LogDamaged when it ends before an index the store knows."""
        start = self._start()
        tail, last_position, reason = start, -1, ""
        for piece in self._pieces():
            tail, reason = piece.checked.tail, piece.checked.reason
            if piece.checked.slots:
                last_position = SLOT.unpack(piece.checked.slots[-1])[1]
        last = EntryId(NO_TERM, NO_INDEX) if last_position < 0 else tail.id
        end = JavaEnd(
            Index(start.id.index + 1),
            self._row.start,
            last,
            last_position,
            tail.chain_crc or 0,
            tail.end,
            reason,
        )
        self._refuse_damage(end)
        return end

    def _start(self) -> Tail:
        header = self._header(self._row.start)
        first = header.sequence if header is not None else 0
        chain_crc = 0 if first == 0 else None
        return Tail(EntryId(NO_TERM, Index(first - 1)), chain_crc, self._row.start)

    def _header(self, position: int) -> RecordHeader | None:
        """The header at an address, None when none begins there."""
        data = self._row.read(position, HEADER_SIZE)
        if len(data) < HEADER_SIZE:
            return None
        header = unpack_header(data)
        whole = header.size == header.body_size + HEADER_SIZE and header.position == position
        return header if header.magic == MAGIC_ENTRY and whole else None

    def _pieces(self) -> Iterator[Piece]:
        return scan(self._row, self._start(), ALL_ZERO_CRCS, self._row.end)

    def _refuse_damage(self, end: JavaEnd) -> None:
        data = self._row.read(end.end, 4)
        if int.from_bytes(data, "big") in _MAGICS_OF_04:
            raise LogDamaged(
                f"the entry at {end.end} is of DLedger 0.4, which plain messages never are; "
                "only logs of DLedger 0.3 can be read"
            )
        committed = self.state().committed
        if committed > end.last.index:
            raise LogDamaged(
                f"the log ends after entry {end.last.index} ({end.reason}) and entry {committed} "
                "was committed; import another replica"
            )
        size = self._row.file_size
        for position in range(end.end - end.end % size + size, self._row.end, size):
            header = self._header(position)
            if header is not None and header.sequence > end.last.index:
                raise LogDamaged(
                    f"the log is not valid behind entry {end.last.index} ({end.reason}) and "
                    f"entry {header.sequence} follows at {position}; import another replica"
                )

        again = self._later_entry(end)
        if again is not None:
            raise LogDamaged(
                f"the log is not valid behind entry {end.last.index} ({end.reason}) and a later "
                f"entry stands at {again}; import another replica"
            )

    def _later_entry(self, end: JavaEnd) -> int | None:
        """Address of an entry behind the end that was appended after the last one.

        Old bytes that Java left behind a truncation are of an older term than what follows.
        """
        log = SegmentLog(
            self._files,
            self.folder / "data",
            self._row.file_size,
            staging=self.folder / "staging",
            writable=False,
        )
        try:
            walk = EntryWalk(log, end.end)
            walk.last = self._header(end.last_position) if end.last_position >= 0 else None
            return walk.next_entry()
        finally:
            log.close()

    def close(self) -> None:
        """Closes the data files; they were open for reading only."""
        self._row.close()


def _long(text: str) -> int:
    """A Java long of a text file; -1 when it is none."""
    number = text.strip().removeprefix("-")
    is_long = number.isascii() and number.isdigit() and len(number) <= _LONG_DIGITS_MAX
    return int(text) if is_long else -1


def adopt_java_store(
    folder: Path,
    *,
    cluster_id: str,
    group: str,
    node_id: str,
    data_file_size: int,
    index_file_size: int,
    incarnation: int,
    files: FileSystem = OS_FILES,
) -> Identity:
    """Make a folder written by Java the folder of our node, in place; work on a copy.

    The records stay as they are: they have no checksums, and that is accepted below the recorded
    upgrade index. What is behind the end of the log is zeroed. The next election must use a term
    above the hard state's, which it does. Raises LogDamaged, StoreLayoutError.
    """
    if files.exists(folder / identities.FILE_NAME):
        raise StoreLayoutError(f"{folder} is formatted already; start the node on it")
    java = JavaStore(folder, data_file_size, files=files)
    try:
        end, state = java.end(), java.state()
    finally:
        java.close()
    staging = folder / "staging"
    for path in (folder / "data", folder / "index", staging):
        files.make_dirs(path)
    _cut(FileRow(files, folder / "data", data_file_size, staging=staging), end.end)
    for name in reversed(files.list(folder / "index")):
        files.remove(folder / "index" / name)  # a cache; recovery makes it anew
    files.sync_dir(folder / "index")
    _write_small_files(files, folder, end, state, incarnation)
    identity = Identity(
        cluster_id,
        group,
        NodeId(node_id),
        data_file_size,
        index_file_size,
        first_position=end.first_position,
        first_index=end.first,
        upgrade_index=Index(max(end.last.index, end.first - 1) + 1),
    )
    identities.write(files, folder, identity, staging=staging)
    return identity


def _write_small_files(
    files: FileSystem, folder: Path, end: JavaEnd, state: JavaState, incarnation: int
) -> None:
    """Hard state, flush mark and intent, as they are in a folder of ours."""
    staging = folder / "staging"
    term = max(state.term, end.last.term, Term(0))
    vote = state.voted_for if state.term == term else None
    hard = HardState(term, vote, incarnation)
    HardStateFile.create(files, folder, hard, staging=staging).close()
    mark = NO_MARK
    if end.last_position >= 0:
        committed = Index(min(state.committed, end.last.index))
        (last_term, last), position = end.last, end.last_position
        mark = Mark(last, last_term, position, end.chain_crc, committed=committed)
    MarkFile.create(files, folder, mark, staging=staging).close()
    IntentFile.create(files, folder, staging=staging).close()


def _cut(row: FileRow, end: int) -> None:
    """Zero all bytes behind the end and sync every file: Java may have left any un-synced."""
    row.load()
    row.drop_after(end)
    row.zero_rest(end)
    for file, _, _ in row.pieces(row.start, row.end - row.start):
        file.datasync()
    row.close()
