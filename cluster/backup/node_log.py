"""The committed log of one replica, read from its folder while the node runs.

    identity     whose log it is
    logstart     where it begins, when its first files are deleted
    snapshots/   the state before that
    data/        the records; what is committed never changes

The folder is only read, and no lock is taken. Which entries are committed is said by the node, or
by its flush mark and `checkpoint`, which may lag and never run ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cluster.backup.entries import piece_of
from cluster.backup.errors import BackupError, BackupGap
from cluster.backup.manifest import LogIdentity, Piece
from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.record import BLANK, MAGIC_BLANK
from commitlog.store.committed import committed_index
from dledger.durable import identity as identities
from dledger.durable import small_files
from dledger.log import log_start
from dledger.log.check import Tail, check_records
from dledger.log.log_start import LogStart
from dledger.runtime.later_files import refuse_later_files
from dledger.snapshots.snapshot_files import SnapshotFolder

#: Bytes of a piece, about; one is in memory at a time.
PIECE_BYTES = 32 << 20
_TRIES = 5  # of reading the beginning while retention moves it


class NodeLog:
    """One node's folder (`dledger-<id>`).

    Raises NotFormatted, LogDamaged for another folder, LaterVersion, OSError.
    """

    def __init__(self, folder: Path, files: FileSystem = OS_FILES) -> None:
        self.folder, self._files = folder, files
        refuse_later_files(files, folder)
        found = identities.read(files, folder)
        self.identity = LogIdentity(
            found.cluster_id,
            found.group,
            found.data_file_size,
            found.index_file_size,
            found.first_position,
            int(found.first_index),
            int(found.upgrade_index),
        )

    def beginning(self) -> tuple[LogStart, bytes] | None:
        """Where the log begins and the state before it; None for a log that has its first entry.

        Raises BackupError when the node has no state there, OSError, LogDamaged.
        """
        snapshots = SnapshotFolder(self._files, self.folder)
        for _ in range(_TRIES):
            start = log_start.read(self._files, self.folder)
            if start is None:
                return None
            try:
                return start, snapshots.load(start)
            except StoreDamaged:
                refuse_later_files(self._files, self.folder)
                continue  # retention has just moved the beginning, or it is lost
        raise BackupError(
            f"{self.folder} does not have the state before its first entry; take another replica"
        )

    def committed_on_disk(self) -> int:
        """The committed index that the node has written down; -1 when it has none.

        A node that runs writes the flush mark within 0.1 s, and `checkpoint` within 3 s.
        """
        mark = small_files.mark(self._files, self.folder)
        found = committed_index(self._files, self.folder)
        return max(-1 if found is None else found, -1 if mark is None else mark.committed)

    def last_behind(self, before: Tail) -> int:
        """The last whole entry that continues `before` in the files, committed or not."""
        sizes = self.identity.data_file_size, self.identity.upgrade_index
        while True:  # at most until the log's end
            data = memoryview(self._bytes(before.end, PIECE_BYTES))
            tail = check_records(data, before, *sizes).tail
            if tail.id.index == before.id.index:
                return int(tail.id.index)
            before = tail

    def pieces(self, before: Tail, committed: int) -> Iterator[tuple[Piece, memoryview]]:
        """Entries behind `before` up to index `committed`, in pieces of at most PIECE_BYTES or one
        entry.

        Raises BackupGap when the log begins behind them, BackupError when it is another log or is
        damaged, OSError.
        """
        while before.id.index < committed:
            size = PIECE_BYTES
            while True:  # at most until the rest of the log is in one piece
                data = memoryview(self._bytes(before.end, size))
                checked = check_records(
                    data, before, self.identity.data_file_size, self.identity.upgrade_index
                )
                found = piece_of(data, before, checked, committed)
                if found is not None or not checked.cut_short or len(data) < size:
                    break
                size *= 2  # an entry larger than a piece
            if found is None:
                self._refuse_gap(before)
                raise BackupError(
                    f"entry {before.id.index + 1} of {self.folder} does not continue the backup: "
                    f"{checked.reason or 'it is not there'}; back up another replica, or begin "
                    "another backup if the cluster was made anew"
                )
            yield found
            before = found[0].tail

    def _bytes(self, position: int, size: int) -> bytes:
        """The bytes from an address on, over the borders of files: `size` or a blank more, or all
        that are there."""
        parts: list[bytes] = []
        while size > 0:
            try:
                part = self._in_file(position, size)
            except FileNotFoundError:
                part = self._lost_blank(position)
                if not part:
                    break
            parts.append(part)
            position, size = position + len(part), size - len(part)
        return b"".join(parts)

    def _in_file(self, position: int, size: int) -> bytes:
        file_size = self.identity.data_file_size
        start = position - position % file_size
        file = self._files.open(self.folder / "data" / f"{start:020}", writable=False)
        try:
            return file.pread(min(size, start + file_size - position), position - start)
        finally:
            file.close()

    def _lost_blank(self, position: int) -> bytes:
        """The blank before the log's first record, which went with its file; else no bytes."""
        start = log_start.read(self._files, self.folder)
        if start is None or start.end != position:
            return b""
        size = start.position - start.end
        return BLANK.pack(MAGIC_BLANK, size).ljust(size, b"\0") if size else b""

    def _refuse_gap(self, before: Tail) -> None:
        start = log_start.read(self._files, self.folder)
        if start is not None and start.index > before.id.index:
            raise BackupGap(
                f"the log of {self.folder} begins with entry {start.index + 1} and the backup ends "
                f"with {before.id.index}"
            )
