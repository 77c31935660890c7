"""Keeping: for a machine with its state in files of its own, a start applies only later entries.

    keep      once the log has all applied entries on disk ─► `machine.keep(progress)`
    start     `machine.kept()` ─► sessions and log time at that index ─► entries after that index

    progress  magic "DLKP" 4 | version 4 | term 8 | index 8 | chain_crc 4 | crc 4 | head

`head` is the result of `Applier.head`; crc is the CRC-32 of all other bytes of the progress.

The machine writes the progress together with its state: both or neither. `keep` waits for the log's
sync, so the log always has the entry that the progress names; if it lacks it, the machine's files
belong to another log.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from commitlog.records.checksum import crc32
from dledger.core.types import Term
from dledger.errors import LogUsageError, StateMachineFailed
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.machine.applier import Applier
from dledger.machine.state_machine import ReplicatedStateMachine, has_snapshots
from dledger.versions import refuse_later

_PROGRESS = struct.Struct(">4sIqqI")
_CRC = struct.Struct(">I")
_MAGIC, _VERSION = b"DLKP", 1


class Kept(NamedTuple):
    """The place behind the last entry in the machine's files, and `Applier.head` as of then."""

    start: LogStart
    head: bytes


def keeps(machine: ReplicatedStateMachine[Any, Any]) -> bool:
    """True if the machine's class overrides `keep`."""
    return type(machine).keep is not ReplicatedStateMachine.keep


def kept_by(machine: ReplicatedStateMachine[Any, Any]) -> bytes | None:
    """The progress in the machine's files. Raises LogUsageError if it has no `snapshot`."""
    if keeps(machine) and not has_snapshots(machine):
        raise LogUsageError(
            f"{type(machine).__name__} has keep and no snapshot, so a node that lags could not be "
            "sent its state; override snapshot and restore, too"
        )
    return machine.kept()


def progress_of(start: LogStart, head: bytes) -> bytes:
    """The bytes that a machine keeps with its state up to `start`; `head`: of the sessions."""
    anchor = _PROGRESS.pack(_MAGIC, _VERSION, start.term, start.index, start.chain_crc)
    return anchor + _CRC.pack(crc32(head, crc32(anchor))) + head


def behind(log: FileLog, index: int) -> LogStart:
    """The place in the log right after an entry. Raises StoreDamaged."""
    (term, last), chain_crc, end = log.reader.tail_at(index)
    return LogStart(term, last, chain_crc or 0, end, end)


def kept_place(log: FileLog, progress: bytes | None) -> Kept | None:
    """Where the log goes on behind the machine's files; None: they are new, or older than the log.

    Raises StateMachineFailed for files that are of another log, LaterVersion, StoreDamaged.
    """
    if progress is None:
        return None
    index, begin = -1, _PROGRESS.size + _CRC.size
    if len(progress) >= begin:
        magic, version, term, index, chain_crc = _PROGRESS.unpack_from(progress)
        (crc,) = _CRC.unpack_from(progress, _PROGRESS.size)
        right = crc32(progress[begin:], crc32(progress[: _PROGRESS.size]))
        if magic == _MAGIC and crc == right:
            refuse_later("the progress in the machine's files", version, _VERSION)
        if (magic, version, crc) == (_MAGIC, _VERSION, right):
            if index < log.first_index - 1:
                return None
            if index <= log.last.index:
                start = behind(log, index)
                if (start.term, start.chain_crc) == (Term(term), chain_crc):
                    return Kept(start, progress[begin:])
    raise StateMachineFailed(
        index,
        "the machine's files are damaged or of another node's log; move them away, and it "
        "begins anew",
    )


class Keeping:
    """Has one machine keep all that it has applied; used on the event loop's thread."""

    def __init__(self, log: FileLog, applier: Applier[Any, Any]) -> None:
        self._log, self._applier = log, applier
        self._machine = applier.machine if keeps(applier.machine) else None
        self._kept_index = -1

    @property
    def is_used(self) -> bool:
        """True for a machine that keeps its state itself."""
        return self._machine is not None

    def resume(self, kept: Kept) -> None:
        """Go on behind the last entry in the machine's files. Raises StateMachineFailed."""
        self._applier.resume(kept.head, kept.start.index)
        self._kept_index = kept.start.index

    def keep(self) -> bool:
        """Call the machine's `keep` for all applied entries, if the log has them on disk.

        False: the log has not, so try later. Raises the machine's own error, StoreDamaged.
        """
        applier, index = self._applier, self._applier.applied
        if self._machine is None or index <= self._kept_index:
            return True
        if not applier.is_whole or index > self._log.flushed:
            return False
        self._machine.keep(progress_of(behind(self._log, index), applier.head()))
        self._kept_index = index
        return True

    def keep_given(self, start: LogStart, head: bytes) -> None:
        """Have it keep the state up to `start` that it was just given, in that thread, if the log
        has that on disk. Raises as `keep`.
        """
        if self._machine is not None and start.index <= self._log.flushed:
            self._machine.keep(progress_of(start, head))
            self._kept_index = start.index
