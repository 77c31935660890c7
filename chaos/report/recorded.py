"""A run's folder as one value, read back from its files (chaos/live/folder.py draws them).

Everything that a report shows comes from here, so a folder that was copied from another machine
gives the same report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.checkers.queues import Replica
from chaos.history import Kind, Operation, Outcome, read_history
from chaos.live.folder import read_replicas


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run; times in seconds of the run.

    Attributes:
        verdict, env: verdict.json and env.json as they stand.
        faults: rows of faults.jsonl. rows: rows of nodes.jsonl, in order of time.
        files: names of the folder's files, for the list of downloads.
    """

    name: str
    verdict: Mapping[str, Any]
    env: Mapping[str, Any]
    history: Sequence[Operation]
    faults: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]
    replicas: Mapping[str, Replica]
    files: Sequence[str]

    @property
    def seconds(self) -> float:
        """End of the time axis: the load's length, or the last thing that happened after it."""
        ends = [op.completed for op in self.history if op.outcome is not Outcome.INFO]
        ends += [float(row["ended"]) for row in self.faults if row["ended"] is not None]
        ends += [float(row["time"]) for row in self.rows]
        return max([float(self.env["settings"]["seconds"]), *ends])

    @property
    def nodes(self) -> list[str]:
        """Every node that anything was seen of, by name."""
        return sorted({str(row["node"]) for row in self.rows} | set(self.replicas))

    def appends(self) -> list[Operation]:
        """Sends only, in the order in which they began."""
        found = [op for op in self.history if op.kind is Kind.APPEND]
        return sorted(found, key=lambda op: op.invoked)


def read_run(root: Path) -> Recorded:
    """Raises OSError, ValueError, KeyError when `root` is not the folder of a finished run."""
    history = (root / "history.jsonl").read_text("utf-8").splitlines()
    return Recorded(
        root.resolve().name,
        json.loads((root / "verdict.json").read_text("utf-8")),
        json.loads((root / "env.json").read_text("utf-8")),
        tuple(read_history(history)),
        _rows(root / "faults.jsonl"),
        sorted(_rows(root / "nodes.jsonl"), key=lambda row: float(row["time"])),
        read_replicas(root),
        _files(root),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _files(root: Path) -> list[str]:
    """What a reader may want next: the run's own files, and what each node logged."""
    names = [path.name for path in root.iterdir() if path.is_file()]
    names += [str(path.relative_to(root)) for path in root.glob("cluster/*/log.txt")]
    return sorted(name for name in names if name != "report.html")
