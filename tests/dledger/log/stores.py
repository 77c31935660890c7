"""Small logs for tests: sizes so small that a few entries fill a file."""

from __future__ import annotations

from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.core.types import EntryId, Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.log.port import LogStore
from dledger.testing.conformance import ship
from tests.dledger.log.crash_files import CrashDisk

FOLDER = Path("/node/dledger-n0")
DATA_FILE_SIZE = 1024
INDEX_FILE_SIZE = 256  # 8 slots
IDENTITY = Identity("cluster", "group", NodeId("n0"), DATA_FILE_SIZE, INDEX_FILE_SIZE)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(
    files: FileSystem,
    folder: Path = FOLDER,
    identity: Identity = IDENTITY,
    *,
    clock: Clock | None = None,
    cache_size_max: int = 4096,
) -> NodeStorage:
    format_node(folder, identity, incarnation=7, files=files)
    return reopen(files, folder, clock=clock, cache_size_max=cache_size_max)


def reopen(
    files: FileSystem,
    folder: Path = FOLDER,
    *,
    clock: Clock | None = None,
    cache_size_max: int = 4096,
) -> NodeStorage:
    """Open as a new process does whose predecessor died, on whatever is there."""
    if isinstance(files, CrashDisk):
        files.locks.clear()
    return open_node(
        folder,
        cluster_id="cluster",
        group="group",
        node_id="n0",
        clock=clock or Clock(),
        files=files,
        cache_size_max=cache_size_max,
    )


def sync(log: LogStore) -> Index:
    task = log.begin_sync()
    if task is None:
        return log.flushed
    task.run()
    return log.finish_sync(task)


def mark(log: LogStore) -> None:
    task = log.begin_mark()
    if task is not None:
        task.run()
        log.finish_mark(task)


def fill(log: LogStore, count: int, term: int = 1, size: int = 100) -> None:
    """Append entries whose bodies name their index and term, one call each."""
    for _ in range(count):
        log.append([body_of(log.last.index + 1, term, size)], Term(term))


def body_of(index: int, term: int, size: int = 100) -> bytes:
    return f"entry {index} of term {term} ".encode().ljust(size, b".")[:size]


def ids(log: LogStore) -> list[EntryId]:
    return [log.id_of(Index(index)) for index in range(log.first_index, log.last.index + 1)]


def dump(log: LogStore) -> list[tuple[int, int, int, bytes]]:
    """(index, term, chain_crc, body) of every entry, read back and verified."""
    if log.last.index < log.first_index:
        return []
    return [
        (entry.header.sequence, entry.header.epoch, entry.header.chain_crc, bytes(entry.body))
        for entry in log.entries(log.first_index, log.last.index)
    ]


def copy_all(source: LogStore, target: LogStore, size_max: int = 1 << 20) -> None:
    """Ship everything that `target` does not have."""
    while target.last.index < source.last.index:
        first = Index(target.last.index + 1)
        ship(source.read_range(first, source.last.index, size_max), target, first)
