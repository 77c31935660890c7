"""A backup → the folders of a new cluster's nodes.

    pieces up to the wished end ─► log of each node, verified again as a follower does
    one more entry              ─► the group is the new nodes, and none of the former ones

Entries keep their index, term and address, so offsets, message ids and consumer positions stay.
Every node gets the same bytes: the entry at the end is a function of the new members and of
`now_ms`. A restore that fails leaves nothing; one that is killed leaves folders that no node starts
on, and the next one begins anew (new_folders.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.backup.backing_up import content_of, state_of
from cluster.backup.entries import shortened, verified
from cluster.backup.errors import BackupError
from cluster.backup.manifest import Manifest, Piece
from cluster.backup.places import Place
from cluster.move.new_folder import SYNC_BYTES, open_new, raise_term, sync
from cluster.move.new_folders import STAGING, all_or_nothing, clear, move_up
from commitlog.files.system import OS_FILES, FileSystem
from dledger.config import RaftConfig
from dledger.core.configuration import ConfigurationEntry, of_voters
from dledger.core.types import Index, NodeId, Term
from dledger.durable import configurations
from dledger.durable.configurations import ConfigurationFile
from dledger.durable.identity import Identity
from dledger.log.check import Tail
from dledger.log.log_start import LogStart
from dledger.log.node_storage import NodeStorage, refuse_used
from dledger.log.port import VerifiedRange
from dledger.replica.envelope import STAMP_AT, members_body
from dledger.runtime.opening import CODEC
from dledger.snapshots.snapshot_files import SnapshotFolder


@dataclass(frozen=True, slots=True)
class Until:
    """How far a backup is restored: to the end where both are None.

    Attributes:
        index: the last entry that is wanted.
        time_ms: no message that was stored later is wanted, ms since 1970. Entries behind the first
            such message are not restored either.
    """

    index: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """`entries`: of the backup, in each node; `last`: index of the last one; `last_ms`: the newest
    store time of their messages, ms since 1970, 0 without any; `checksum`: the running one of the
    whole log, with the new members at its end."""

    entries: int
    last: int
    last_ms: int
    checksum: int


Content = Callable[[Piece], bytes]


def check_until(manifest: Manifest, until: Until) -> None:
    """Raises BackupError for an end that the backup does not have; reads no more of it."""
    first = int(manifest.anchor.id.index) + 1
    if until.index is not None and not first <= until.index <= manifest.mark:
        has = f"has entries {first} to {manifest.mark} and not {until.index}; name one of them"
        if manifest.mark < first:
            has = f"has no entry, so not {until.index}; dledger backup run adds what is committed"
        raise BackupError(f"the backup {has}")
    if until.time_ms is not None and not manifest.last_ms:
        raise BackupError(
            "no entry of the backup has a time, as those of embedded machines do not; give "
            "--to-index"
        )


def chosen(place: Place, manifest: Manifest, until: Until) -> Iterator[tuple[Piece, bytes, Tail]]:
    """The pieces up to `until`, the last one shortened, each with the end that it continues.

    Raises BackupDamaged, OSError, and as `check_until`.
    """
    check_until(manifest, until)
    before = manifest.anchor
    for piece in manifest.pieces:
        if until.index is not None and piece.first > until.index:
            return
        data = content_of(place, f"{manifest.log.group}/{piece.name}")
        if _is_whole(piece, until):
            yield piece, data, before
        else:
            found = shortened(
                data, piece, before, manifest.log, last=until.index, until_ms=until.time_ms
            )
            if found is not None:
                yield found[1], found[0], before
            return
        before = piece.tail


def _is_whole(piece: Piece, until: Until) -> bool:
    return (until.index is None or piece.last <= until.index) and (
        until.time_ms is None or piece.last_ms <= until.time_ms
    )


def restore(
    place: Place,
    manifest: Manifest,
    nodes: Sequence[RaftConfig],
    until: Until,
    now_ms: int | None,
    *,
    voters: Sequence[str] = (),
    files: FileSystem = OS_FILES,
    progress: Callable[[int], None] = lambda _: None,
) -> Restored:
    """Format the folders of `nodes` and fill their logs; after an error none of it is left.

    Args:
        now_ms: stamp of the entry at the end; None: the newest store time that is restored, so that
            several machines write the same one.
        voters: of the new group; none given: `nodes` are all of them.
        progress: called after each piece with the index of the last entry so far.

    Raises BackupError and its kinds, StoreLayoutError when a folder is in use, OSError.
    """
    check_until(manifest, until)
    folders = [Path(raft.data_dir) for raft in nodes]
    for folder in folders:
        clear(folder, files)
        refuse_used(files, folder)
    with all_or_nothing(folders):
        done = _filled(place, manifest, nodes, until, now_ms, voters, files, progress)
        move_up(folders, files)
    return done


def _filled(
    place: Place,
    manifest: Manifest,
    nodes: Sequence[RaftConfig],
    until: Until,
    now_ms: int | None,
    voters: Sequence[str],
    files: FileSystem,
    progress: Callable[[int], None],
) -> Restored:
    """Make the nodes in the staging folders of theirs."""
    staged = [replace(raft, data_dir=Path(raft.data_dir) / STAGING) for raft in nodes]
    with _Nodes(manifest, staged, voters, files) as made:
        if manifest.beginning is not None:
            made.begin(manifest.beginning.start, state_of(place, manifest))
        last, newest_ms = int(manifest.anchor.id.index), 0
        for piece, data, before in chosen(place, manifest, until):
            made.add(verified(data, piece, before, manifest.log), piece.first)
            last, newest_ms = piece.last, max(newest_ms, piece.last_ms)
            progress(last)
        checksum = made.finish(newest_ms if now_ms is None else now_ms)
    return Restored(last - int(manifest.anchor.id.index), last, newest_ms, checksum)


class _Nodes:
    """The open folders of all nodes; closed as failed when the work within ends with an error."""

    def __init__(
        self,
        manifest: Manifest,
        nodes: Sequence[RaftConfig],
        voters: Sequence[str],
        files: FileSystem,
    ) -> None:
        self._manifest, self._configs, self._files = manifest, nodes, files
        self._open: list[NodeStorage] = []
        self._unsynced = 0
        names = voters or [raft.node_id for raft in nodes]
        self._voters = tuple(sorted(map(NodeId, names)))

    def __enter__(self) -> _Nodes:
        try:
            for raft in self._configs:
                self._format(raft)
        except BaseException:
            self.close(failed=True)
            raise
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.close(failed=kind is not None)

    def close(self, *, failed: bool) -> None:
        for storage in self._open:
            storage.close(failed=failed)

    def _format(self, raft: RaftConfig) -> None:
        log = self._manifest.log
        identity = Identity(
            raft.cluster_id,
            raft.group,
            NodeId(raft.node_id),
            data_file_size=log.data_file_size,
            index_file_size=log.index_file_size,
            first_position=log.first_position,
            first_index=Index(log.first_index),
            upgrade_index=Index(log.upgrade_index),
            voters=self._voters,
        )
        self._open.append(open_new(raft, identity, self._files))

    def begin(self, start: LogStart, state: bytes) -> None:
        """The logs begin where the backup does, with the state before that."""
        for raft, storage in zip(self._configs, self._open, strict=True):
            SnapshotFolder(self._files, Path(raft.data_dir)).save(start, state)
            storage.log.restart_at(start)

    def add(self, found: VerifiedRange, first: int) -> None:
        """Append the entries of a piece to every log."""
        for storage in self._open:
            storage.log.append_range(found, Index(first))
        self._unsynced += len(found.data)
        if self._unsynced > SYNC_BYTES:
            self._sync()

    def _sync(self) -> None:
        for storage in self._open:
            sync(storage.log)
        self._unsynced = 0

    def finish(self, now_ms: int) -> int:
        """The new members as the last entry; all of it durable, and counted as committed.

        Returns the running checksum of the log.
        """
        members = of_voters(self._voters)
        for raft, storage in zip(self._configs, self._open, strict=True):
            folder, log = Path(raft.data_dir), storage.log
            self._files.remove(folder / configurations.FILE_NAME)  # written anew from the log
            group = ConfigurationFile(self._files, folder, log, CODEC, staging=folder / "staging")
            term = Term(max(log.last.term, 1))
            group.note(ConfigurationEntry(Index(log.last.index + 1), members), term)
            log.append([members_body(members, now_ms)], term, stamp_at=STAMP_AT)
        self._sync()
        for storage in self._open:
            storage.log.save_commit(storage.log.last.index)
            raise_term(storage)
        log = self._open[0].log
        newest = log.read_range(log.last.index, log.last.index, 1)
        return log.check_range(newest).tail_chain_crc
