"""A run's folder as one value, read back from its files (chaos/live/folder.py draws them).

Everything that a report shows comes from here, so a folder that was copied from another machine
gives the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.checkers.queues import Replica
from chaos.history import Kind, Operation, Outcome, from_json
from chaos.live import evidence_rows
from chaos.live.evidence_files import read_ended, read_replicas
from chaos.live.json_files import read_json, read_rows
from chaos.live.node_trace import TRACE, read_traces


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run; times in seconds of the run.

    Attributes:
        verdict, env: verdict.json and env.json as they stand.
        ending: ended.json, or what an earlier release wrote into verdict.json.
        faults: rows of faults.jsonl. rows: rows of nodes.jsonl, in order of time.
        told: lines of the nodes' own traces (node_trace.py), in order of time.
        messages: of a simulated run (replay/record.py).
        log_ends: of one that a violation ended (replay/log_ends.py).
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
    told: Sequence[Mapping[str, Any]] = ()
    messages: Sequence[Mapping[str, Any]] = ()
    ending: Mapping[str, Any] = field(default_factory=dict)
    log_ends: Sequence[Mapping[str, Any]] = ()

    @property
    def ended(self) -> bool:
        """False of a run that died: it left no replica."""
        return bool(self.ending)

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
    """Reads a run's folder; of a run that died, the rows written by then: `verdict` and `replicas`
    are empty.

    Raises OSError, ValueError when `root` is not the folder of a run, or is damaged.
    """
    ending = read_ended(root)
    verdict = _verdict(root, needed=not ending)
    ending = ending or verdict
    torn = not ending
    rows = read_rows(root / "nodes.jsonl", evidence_rows.look, torn=torn)
    return Recorded(
        root.resolve().name,
        verdict,
        read_json(root / "env.json", evidence_rows.check_env),
        read_rows(root / "history.jsonl", from_json, torn=torn),
        read_rows(root / "faults.jsonl", evidence_rows.fault, torn=torn),
        sorted(rows, key=lambda row: float(row["time"])),
        read_replicas(root) if ending else {},
        _files(root),
        read_traces(root),
        _rows_of_simulator(root / "messages.jsonl", evidence_rows.message, torn=torn),
        ending,
        _rows_of_simulator(root / "logs.jsonl", evidence_rows.log_end, torn=torn),
    )


def _verdict(root: Path, *, needed: bool) -> dict[str, Any]:
    """Empty when there is none, or, unless it is needed, none that can be read."""
    path = root / "verdict.json"
    if not path.exists():
        return {}
    try:
        return read_json(path, evidence_rows.check_verdict)
    except ValueError:
        if needed:
            raise
        return {}


def _rows_of_simulator(
    path: Path, of_line: Callable[[str], dict[str, Any]], *, torn: bool
) -> list[dict[str, Any]]:
    """[] of a live run."""
    return read_rows(path, of_line, torn=torn) if path.exists() else []


def _files(root: Path) -> list[str]:
    """Returns the files to list on the page: the run's own files, and each node's log and trace."""
    names = [path.name for path in root.iterdir() if path.is_file()]
    for kept in ("log.txt", TRACE):
        names += [str(path.relative_to(root)) for path in root.glob(f"cluster/*/{kept}")]
    return sorted(name for name in names if name != "report.html")
