"""Converts the evidence of a run into Parquet by queue: its whole folder, or a history file alone.

    history.jsonl                        ─► history/log=…
    replicas.json                        ─► replica=…/log=…
    verdict.json, faults.jsonl, env.json ─► circumstances.json

Killed in between, convert again: the files of before are written over.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from chaos.checkers.anomaly import Log
from chaos.checkers.blind import with_values
from chaos.checkers.deferred import as_appends
from chaos.checkers.levels import Blackout, Outage, find_blackouts
from chaos.faults import Driver, kind_of
from chaos.history import Operation, read_history
from pipeline.jobs.history.circumstances import NONE, Circumstances, write_circumstances
from pipeline.jobs.history.files import history_table, log_table, write_history, write_log

CHUNK_OPERATIONS = 200_000  # converted at once
NO_REPLICAS: Mapping[str, Mapping[str, Log]] = {}


def convert(
    lines: Iterable[str],
    root: Path,
    circumstances: Circumstances = NONE,
    replicas: Mapping[str, Mapping[str, Log]] = NO_REPLICAS,
) -> int:
    """A history file's lines → Parquet by queue; operations. Raises ValueError, KeyError for a bad
    line.
    """
    write_circumstances(root, circumstances)
    written = as_appends(read_history(lines))
    operations = with_values(written, replicas, circumstances.begins)
    count = part = 0
    while chunk := list(islice(operations, CHUNK_OPERATIONS)):
        by_log: dict[str, list[Operation]] = defaultdict(list)
        for op in chunk:
            by_log[op.log].append(op)
        for log, mine in by_log.items():
            write_history(root, log, history_table(mine), part)
        count, part = count + len(chunk), part + 1
    return count


def convert_run(run: Path, root: Path) -> int:
    """The folder of a live chaos run → all that `check` needs; operations.

    Raises OSError, ValueError, KeyError, TypeError when `run` is not the folder of a finished run.
    """
    circumstances = circumstances_of(run)
    replicas = _json(run / "replicas.json")
    with (run / "history.jsonl").open(encoding="utf-8") as lines:
        count = convert(lines, root, circumstances, replicas)
    for replica, queues in replicas.items():
        for queue, log in queues.items():
            write_log(root, replica, queue, log_table(log))
    return count


def circumstances_of(run: Path) -> Circumstances:
    """Reads the circumstances from a run's folder. Raises as `convert_run`."""
    begins = int(_json(run / "verdict.json").get("log_begins", 0))
    nodes = int(_json(run / "env.json")["settings"]["nodes"])
    lines = (run / "faults.jsonl").read_text(encoding="utf-8").splitlines()
    faults = [json.loads(line) for line in lines if line.strip()]
    return Circumstances(begins, tuple(_blackouts(faults, nodes)))


def _blackouts(faults: Iterable[Mapping[str, Any]], nodes: int) -> Sequence[Blackout]:
    """Finds blackouts as the live judge does (`chaos.live.outages`), from the recorded faults."""
    outages = [
        Outage(
            row["began"],
            row["ended"] + row["recovery_seconds"],
            frozenset(row["nodes"]),
            Blackout(*row["power_gone"]) if "power_gone" in row else None,
        )
        for row in faults
        if row["began"] is not None and row["ended"] is not None
        if kind_of(row["kind"]).driver is not Driver.CLIENT
    ]
    return find_blackouts(outages, nodes)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
