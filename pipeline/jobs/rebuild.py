"""CommitLog → ConsumeQueue and IndexFile, byte for byte as the store itself would write them.

    piece of the log ─► which records, and what is derived from them     in tasks, any order
    in log order     ─► commitlog's dispatcher ─► files                  here

The heavy part, reading columns out of bytes, is the tasks'; the key index depends on the order of
insertion, so the files are written in log order, by the same code that a running store uses. The
log is only read. Index files are named after the store time of the message that began them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from commitlog.config import StoreConfig
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.dispatch.columns import Stretch
from commitlog.dispatch.derived import DerivedFiles
from commitlog.dispatch.dispatch_mark import remove_mark
from commitlog.errors import StoreUsageError
from commitlog.files.system import OS_FILES
from commitlog.records import accel
from commitlog.records.dispatch_rules import SCHEDULE_TOPIC
from commitlog.records.record import HEADER_SIZE
from pipeline.jobs.committed import only_committed
from pipeline.jobs.workers import Here, Workers
from pipeline.options import LogOptions, log_at
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import bytes_of, located
from pipeline.rawlog.shares import Piece

PIECE_BYTES = 8 << 20  # read at once: arrays stay in the cache, and results are small
_SPECIAL = frozenset({SCHEDULE_TOPIC})


@dataclass(frozen=True, slots=True)
class RebuildTask:
    """One piece."""

    options: LogOptions
    piece: Piece


@dataclass(frozen=True, slots=True)
class Run:
    """Whole records next to each other: addresses of the first byte and behind the last."""

    begin: int
    end: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The numbers of derived queues and entries, and of the bytes read."""

    queues: int
    queue_entries: int
    index_entries: int
    bytes_read: int


def rebuild(
    store: Path | str,
    target: Path,
    *,
    config: StoreConfig | None = None,
    workers: Workers | None = None,
) -> Rebuilt:
    """Write consumequeue/ and index/ into the empty or new folder `target`.

    `config`: sizes of files, which must be those of the store; the defaults are RocketMQ's.
    Raises StoreUsageError when `target` has something in it, StoreDamaged for a broken record.
    """
    accel.load()
    if target.exists() and any(target.iterdir()):
        raise StoreUsageError(f"{target} is not empty; name a new folder")
    options = only_committed(log_at(store, partition_bytes=PIECE_BYTES, internal=True))
    tasks = [RebuildTask(options, piece) for piece in plan(options)]
    entries = any(task.piece.entries for task in tasks)
    if entries and not all(task.piece.entries for task in tasks):
        raise StoreUsageError(
            f"{options.where} has plain records before its entries; rebuild them apart"
        )
    derived = _open(target, config or StoreConfig(), entries)
    try:
        count = 0
        results = (workers or Here()).map(runs_of, tasks)
        for task, runs in zip(tasks, results, strict=True):
            if not runs:
                continue
            with bytes_of(task.piece) as data:
                for run in runs:
                    _dispatch(derived, data, task.piece, run)
                    count += run.end - run.begin
        derived.begin_sync().run()
        counts = derived.queues.counts()
        made = Rebuilt(
            len(counts),
            sum(counts.values()),
            derived.index.entry_count if derived.index is not None else 0,
            count,
        )
    finally:
        derived.close()
    remove_mark(OS_FILES, target)
    (target / "staging").rmdir()
    return made


def _open(target: Path, config: StoreConfig, entries: bool) -> DerivedFiles:
    target.mkdir(parents=True, exist_ok=True)
    (target / "staging").mkdir()
    derived: DerivedFiles

    def now() -> float:
        return derived.dispatcher.store_timestamp_ms / 1000

    derived = DerivedFiles(
        OS_FILES, target, config, staging=target / "staging", entries=entries, now=now
    )
    return derived


def runs_of(task: RebuildTask) -> list[Run]:
    """In a task: where the piece's whole records are, and their columns."""
    accel.load()
    piece, options = task.piece, task.options
    lead = HEADER_SIZE if piece.entries else 0
    runs = []
    with bytes_of(piece) as data:
        for found in located(options, piece, data):
            wanted = found
            if found.log_index is not None and options.end_index >= 0:
                wanted = found.slice(0, int(np.searchsorted(found.log_index, options.end_index)))
            if not len(wanted):
                continue
            begin, end = int(wanted.at[0]) - lead, int(wanted.at[-1] + wanted.size[-1])
            position = piece.position + begin
            part = bytes(data[begin:end])
            made = read_stretches(part, position, _SPECIAL) if piece.entries else ()
            runs.append(Run(position, piece.position + end, tuple(made)))
    return runs


def _dispatch(derived: DerivedFiles, data: memoryview, piece: Piece, run: Run) -> None:
    dispatcher = derived.dispatcher
    assert run.begin >= dispatcher.position, "in log order"
    dispatcher.position = run.begin  # blanks at the ends of files lie between
    part = data[run.begin - piece.position : run.end - piece.position]
    dispatcher.dispatch(run.begin, [part], stretches=run.stretches)


def compare(store: Path, rebuilt: Path) -> list[str]:
    """Files of queues and index that differ, byte by byte; [] if none does.

    Queues are compared by name, index files by their order: their names tell when they were made.
    """
    ours, theirs = _queue_files(rebuilt), _queue_files(store)
    wrong = [f"{name} is only in one of them" for name in sorted(ours.keys() ^ theirs.keys())]
    wrong += [
        f"{name} differs"
        for name in sorted(ours.keys() & theirs.keys())
        if not _same(ours[name], theirs[name])
    ]
    mine, others = _index_files(rebuilt), _index_files(store)
    if len(mine) != len(others):
        wrong.append(f"{len(mine)} index files instead of {len(others)}")
    pairs = zip(mine, others, strict=False)
    wrong += [f"index/{other.name} differs" for own, other in pairs if not _same(own, other)]
    return wrong


def _queue_files(root: Path) -> Mapping[str, Path]:
    return {
        str(path.relative_to(root)): path
        for kind in ("consumequeue", "batchconsumequeue")
        for path in sorted((root / kind).glob("*/*/[0-9]*"))
    }


def _index_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "index").glob("[0-9]*"))


def _same(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    return all(a == b for a, b in zip(_blocks(one), _blocks(other), strict=True))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block
