"""The table of a backup: its log, the pieces that count, and the mark that they reach.

    <place>/<group>/MANIFEST.json                  replaced in one step; nothing else counts
                    log/<20 digits>-<20 digits>    bytes of the log, from one address to another
                    state/<20 digits>              the state before the log's first entry

    MANIFEST.json   one line of JSON, then a line "crc32 <8 hex digits>" over it

The pieces follow each other without a gap: the first continues `anchor`, each other one the piece
before it. An address is a byte's place in the log, the same on every replica. A piece whose name is
in no manifest was written by a command that was killed; the next one writes it again.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from cluster.backup.errors import BackupDamaged
from dledger.core.types import EntryId, Index, Term, TermRun
from dledger.durable import two_copies
from dledger.log.check import Tail
from dledger.log.log_start import LogStart
from dledger.versions import refuse_later, refuse_other_fields

T = TypeVar("T")
NAME = "MANIFEST.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """The log that is backed up, and the sizes that are part of its files (bytes)."""

    cluster_id: str
    group: str
    data_file_size: int
    index_file_size: int
    first_position: int
    first_index: int
    upgrade_index: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """The state that takes the place of a log's deleted beginning.

    Attributes:
        start: where the log begins.
        size, sha256: of the file `state/<position>`, bytes and hex digits.
    """

    start: LogStart
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name below the group's folder."""
        return f"state/{self.start.position:020}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of whole entries.

    Attributes:
        first, last: indexes, both inside.
        position, end: addresses; a blank before the first entry is inside, also one that went with
            the log's deleted beginning.
        term, chain_crc: of the last entry.
        runs: (term, last index) of each run of entries of one term.
        last_ms: the newest store time of its messages, ms since 1970; 0 where there are none.
        sha256: of the bytes, hex digits.
    """

    first: int
    last: int
    position: int
    end: int
    term: int
    chain_crc: int
    runs: tuple[tuple[int, int], ...]
    last_ms: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name below the group's folder."""
        return f"log/{self.position:020}-{self.end:020}"

    @property
    def tail(self) -> Tail:
        """The end of the piece, which the next one continues."""
        return Tail(EntryId(Term(self.term), Index(self.last)), self.chain_crc, self.end)

    @property
    def term_runs(self) -> tuple[TermRun, ...]:
        """`runs` as the log has them."""
        return tuple(TermRun(Term(term), Index(last)) for term, last in self.runs)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The table; empty before the first run.

    Attributes:
        log: the log that is backed up.
        made_ms: when the newest piece was added, ms since 1970, by the clock of the machine that
            did it.
        beginning: None for a log that is whole from its first entry on.
        pieces: in order.
    """

    log: LogIdentity
    made_ms: int = 0
    beginning: Beginning | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def anchor(self) -> Tail:
        """The end before the first piece."""
        if self.beginning is not None:
            return self.beginning.start.tail
        before = EntryId(Term(-1), Index(self.log.first_index - 1))
        chain_crc = 0 if self.log.first_index == 0 else None
        return Tail(before, chain_crc, self.log.first_position)

    @property
    def tail(self) -> Tail:
        """The mark: the last entry that is in the backup."""
        return self.pieces[-1].tail if self.pieces else self.anchor

    @property
    def mark(self) -> int:
        """Index of the last entry that is in the backup; that before the first one without any."""
        return int(self.tail.id.index)

    @property
    def last_ms(self) -> int:
        """The newest store time of its messages, ms since 1970; 0 where there are none."""
        return max((piece.last_ms for piece in self.pieces), default=0)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        state = self.beginning.size if self.beginning else 0
        return state + sum(piece.end - piece.position for piece in self.pieces)

    def with_piece(self, piece: Piece, now_ms: int) -> Manifest:
        """The same, one piece longer."""
        return replace(self, pieces=(*self.pieces, piece), made_ms=now_ms)


def encode(manifest: Manifest) -> bytes:
    """As the file has it."""
    line = json.dumps({"version": VERSION, **asdict(manifest)}, sort_keys=True).encode()
    return two_copies.sign(line)


def decode(data: bytes, where: str) -> Manifest:
    """The manifest in the bytes of the file `where`. Raises BackupDamaged, LaterVersion."""
    line = two_copies.signed(data)
    if line is None:
        raise BackupDamaged(f"{where} is not as it was written: its checksum is wrong")
    values: dict[str, Any] = json.loads(line)
    version = values.pop("version", None)
    refuse_later(where, version, VERSION)
    if version != VERSION:
        raise BackupDamaged(f"{where} has no version that this release knows ({VERSION})")
    refuse_other_fields(where, values, ("log", "made_ms", "beginning", "pieces"))
    beginning = values["beginning"]
    return Manifest(
        _made(LogIdentity, values["log"], where),
        values["made_ms"],
        None if beginning is None else _beginning(beginning, where),
        tuple(_piece(row, where) for row in values["pieces"]),
    )


def _beginning(row: dict[str, Any], where: str) -> Beginning:
    return _made(Beginning, row, where, start=_made(LogStart, row.get("start"), where))


def _piece(row: dict[str, Any], where: str) -> Piece:
    return _made(Piece, row, where, runs=tuple((term, last) for term, last in row.get("runs", ())))


def _made(kind: type[T], row: Any, where: str, **instead: Any) -> T:
    """A value of a row with its fields. Raises LaterVersion for others."""
    fields = inspect.signature(kind).parameters
    needed = [name for name, one in fields.items() if one.default is one.empty]
    refuse_other_fields(where, row, needed, [*fields])
    return kind(**{**row, **instead})
