"""Histories and logs in Parquet, one folder per queue.

    <root>/history/log=⟨queue⟩/000000.parquet …            tables of SCHEMA, in the history's order
    <root>/replica=⟨name⟩/log=⟨queue⟩/000000.parquet …     tables of LOG_SCHEMA, by rising offsets
    <root>/circumstances.json                              circumstances.py; may be absent

Names are percent-encoded. Files of earlier releases lack the columns `level` and `position`: their
acknowledgements count as on disk, and their positions as unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.history import Level, Operation
from pipeline.jobs.history.columns import ADDED_COLUMNS, LOG_SCHEMA, SCHEMA


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """One queue's files."""

    log: str
    history: tuple[Path, ...]
    replicas: Mapping[str, tuple[Path, ...]]

    def operations(self, schema: pa.Schema = SCHEMA) -> pa.Table:
        """One row per operation, with the columns of `schema`, which are some of SCHEMA."""
        return _table(self.history, schema)

    def logs(self) -> dict[str, pa.Table]:
        """Replica → table of LOG_SCHEMA."""
        return {name: _table(files, LOG_SCHEMA) for name, files in self.replicas.items()}


def queues_under(root: Path) -> list[QueueFiles]:
    """All queues that the history or a replica has, ordered by name."""
    histories = _by_log(root / "history")
    replicas = {
        unquote(folder.name.removeprefix("replica=")): _by_log(folder)
        for folder in sorted(root.glob("replica=*"))
    }
    return [
        QueueFiles(
            log,
            histories.get(log, ()),
            {name: files.get(log, ()) for name, files in replicas.items()},
        )
        for log in sorted(set(histories).union(*replicas.values()))
    ]


def history_table(history: Iterable[Operation]) -> pa.Table:
    """Operations as a table of SCHEMA."""
    rows = list(history)
    return pa.Table.from_pydict(
        {
            "process": [op.process for op in rows],
            "kind": [op.kind.value for op in rows],
            "value": [op.value for op in rows],
            "invoked": [op.invoked for op in rows],
            "completed": [op.completed for op in rows],
            "outcome": [op.outcome.value for op in rows],
            "offset": [op.offset for op in rows],
            "values": [[{"offset": o, "value": v} for o, v in op.values] for op in rows],
            "level": [None if op.level is Level.ON_DISK else op.level.value for op in rows],
            "position": [None if op.position < 0 else op.position for op in rows],
        },
        SCHEMA,
    )


def log_table(log: Iterable[tuple[int, str]]) -> pa.Table:
    """A replica's log as a table of LOG_SCHEMA."""
    rows = list(log)
    return pa.Table.from_pydict(
        {"offset": [offset for offset, _ in rows], "value": [value for _, value in rows]},
        LOG_SCHEMA,
    )


def write_history(root: Path, log: str, table: pa.Table, part: int = 0) -> None:
    """Write a queue's operations, or the next part of them."""
    _write(root / "history" / _folder(log), part, table)


def write_log(root: Path, replica: str, log: str, table: pa.Table, part: int = 0) -> None:
    """Write a replica's log of one queue, or the next part of it, by rising offsets."""
    _write(root / f"replica={quote(replica, safe='')}" / _folder(log), part, table)


def _by_log(folder: Path) -> dict[str, tuple[Path, ...]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("log=*/*.parquet")):
        found[unquote(path.parent.name.removeprefix("log="))].append(path)
    return {log: tuple(paths) for log, paths in found.items()}


def _table(files: Iterable[Path], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(_part(path, schema) for path in files)])


def _part(path: Path, schema: pa.Schema) -> pa.Table:
    file = pq.ParquetFile(path)
    empty = ADDED_COLUMNS.difference(_filled(file)).intersection(schema.names)
    table = file.read([name for name in schema.names if name not in empty])
    for name in sorted(empty):
        table = table.append_column(name, pa.nulls(len(table), schema.field(name).type))
    return table.select(schema.names).cast(schema)


def _filled(file: pq.ParquetFile) -> set[str]:
    """The ADDED_COLUMNS that have a value in some row, as the file's footer tells.

    Most files have no such column, and decoding a million nulls takes a fiftieth of a whole run.
    """
    found = set()
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            filled = column.statistics is None or column.statistics.null_count != group.num_rows
            if column.path_in_schema in ADDED_COLUMNS and filled:
                found.add(column.path_in_schema)
    return found


def _folder(log: str) -> str:
    return f"log={quote(log, safe='')}"


def _write(folder: Path, part: int, table: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{part:06d}.parquet", compression="zstd", compression_level=1)
