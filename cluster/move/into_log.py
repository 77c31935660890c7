"""Records and state of a source → the log of a node that was just formatted.

    formatted folder ─► entries of the source ─► entries with topics, groups, offsets ─► closed

A source in DLedger's layout keeps positions, indexes and terms, and its empty checksums are filled.
Any other source begins at 0 with term 1. The nodes are made in staging folders and move up when all
are whole (`cluster.move.new_folders`): an error leaves none, and a process that is killed leaves
folders that no node starts on, which the next import into them removes.

Every node of the new cluster gets the same bytes: the import is a function of the source and of
`now_ms`, the stamp of the entries at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path

from cluster.core.internal_topics import StateChange, encode_change
from cluster.move.errors import MoveRefused
from cluster.move.new_folder import SYNC_BYTES, open_new, raise_term, sync
from cluster.move.new_folders import STAGING, all_or_nothing, clear, move_up
from cluster.move.relocate import Relocation
from cluster.move.source import Source, Survey
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from commitlog.records.record import BLANK_SIZE, HEADER_SIZE
from dledger.config import RaftConfig
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, refuse_used

_UNIT_BYTES = 4 << 20  # of entries appended at once
_HOST = bytes(4) + (0).to_bytes(4, "big")  # 0.0.0.0:0: these entries came from no client
FIRST_TERM = Term(1)
Progress = Callable[[int], None]


def import_into(
    source: Source,
    survey: Survey,
    changes: Sequence[StateChange],
    nodes: Sequence[RaftConfig],
    *,
    now_ms: int,
    files: FileSystem = OS_FILES,
    progress: Callable[[str], AbstractContextManager[Progress]] = lambda _: nullcontext(_silent),
) -> int:
    """Make the folder of each node and fill its log; returns the number of entries in each.

    `progress(node id)` is entered around the making of each node, and is told how many entries are
    written, after each few of them. After an error no folder is left.

    Raises MoveRefused when a record does not fit the nodes' files, StoreLayoutError when a folder
    is in use, FolderBusy while another import fills it, OSError.
    """
    for raft in nodes:
        _refuse_large(survey, _identity(source, survey, raft))
    folders = [Path(raft.data_dir) for raft in nodes]
    for folder in folders:
        clear(folder, files)
        refuse_used(files, folder)
    entries = 0
    with all_or_nothing(folders):
        for raft in nodes:
            staged = replace(raft, data_dir=Path(raft.data_dir) / STAGING)
            with progress(raft.node_id) as told:
                entries = fill(source, survey, changes, staged, now_ms, files, told)
        move_up(folders, files)
    return entries


def _silent(_: int) -> None:
    """Progress that is not shown."""


def fill(
    source: Source,
    survey: Survey,
    changes: Sequence[StateChange],
    raft: RaftConfig,
    now_ms: int,
    files: FileSystem,
    progress: Progress,
) -> int:
    """Format `raft.data_dir` itself and fill its log; returns the number of entries.

    Raises as `import_into`; what it made is left.
    """
    identity = _identity(source, survey, raft)
    _refuse_large(survey, identity)
    storage = open_new(raft, identity, files)
    failed = True
    try:
        writer = _Writer(storage, progress, keeps=source.keeps_addresses)
        for term, record in chain(
            _records(source, identity, writer), _state(changes, survey, now_ms)
        ):
            writer.add(term, record)
        entries = writer.finish()
        raise_term(storage)
        failed = False
    finally:
        storage.close(failed=failed)
    return entries


def _identity(source: Source, survey: Survey, raft: RaftConfig) -> Identity:
    keeps = source.keeps_addresses and survey.entries > 0
    return Identity(
        raft.cluster_id,
        raft.group,
        NodeId(raft.node_id),
        data_file_size=source.data_file_size if keeps else raft.data_file_size,
        index_file_size=raft.index_file_size,
        first_position=source.first_position if keeps else 0,
        first_index=Index(survey.first) if keeps else Index(0),
    )


def _refuse_large(survey: Survey, identity: Identity) -> None:
    entry_size_max = identity.data_file_size - HEADER_SIZE - BLANK_SIZE
    if survey.largest > entry_size_max + HEADER_SIZE:
        raise MoveRefused(
            f"the largest message takes {survey.largest} bytes and a log file of "
            f"{identity.data_file_size} holds {entry_size_max}; set raft.data_file_size higher"
        )


def _records(
    source: Source, identity: Identity, writer: _Writer
) -> Iterator[tuple[Term, bytearray]]:
    """Every record of the source, at its new address."""
    relocation, size_of_file = Relocation(), identity.data_file_size
    at = identity.first_position
    for item, message in source.items():
        size = HEADER_SIZE + len(item.body)
        left = size_of_file - at % size_of_file
        if size + BLANK_SIZE > left:
            at += left
        if writer.keeps and item.header is not None:
            assert at == item.header.position, "the same placement rule gives the same place"
        term = Term(item.header.epoch) if writer.keeps and item.header else FIRST_TERM
        yield term, relocation.move(item.body, message, at + HEADER_SIZE)
        at += size


def _state(
    changes: Sequence[StateChange], survey: Survey, now_ms: int
) -> Iterator[tuple[Term, bytearray]]:
    """The entries at the end: topics, groups and offsets as the source's config files had them."""
    term = Term(max(survey.term, FIRST_TERM))
    next_offset = {topic: end for (topic, _), end in survey.queues.items()}
    for change in changes:
        record = encode_change(change)
        offset = next_offset.get(record.topic, 0)
        next_offset[record.topic] = offset + 1
        yield (
            term,
            encode_record(
                topic_field(record.topic),
                b"",
                record.body,
                0,
                0,
                0,
                now_ms,
                _HOST,
                _HOST,
                queue_offset=offset,
                store_timestamp_ms=now_ms,
            ),
        )


class _Writer:
    """Appends in units of one term, syncs now and then."""

    def __init__(self, storage: NodeStorage, progress: Progress, *, keeps: bool) -> None:
        self._log, self._progress, self.keeps = storage.log, progress, keeps
        self._unit: list[bytearray] = []
        self._term = FIRST_TERM
        self._size = self._unsynced = 0
        self._entries = 0

    def add(self, term: Term, record: bytearray) -> None:
        if self._unit and (term != self._term or self._size > _UNIT_BYTES):
            self._append()
        self._term = term
        self._unit.append(record)
        self._size += len(record)

    def _append(self) -> None:
        self._log.append(self._unit, self._term, stamp_at=PHYSICAL_OFFSET_AT)
        self._entries += len(self._unit)
        self._unsynced += self._size
        self._unit, self._size = [], 0
        self._progress(self._entries)
        if self._unsynced > SYNC_BYTES:
            self._sync()

    def _sync(self) -> None:
        sync(self._log)
        self._unsynced = 0

    def finish(self) -> int:
        """Everything on disk; all of it counts as committed."""
        if self._unit:
            self._append()
        self._sync()
        self._log.save_commit(self._log.last.index)
        return self._entries
