"""The evidence of a run, put together again from its folder, for a second judgement.

    history.jsonl  replicas.json  copies.json  nodes.jsonl  faults.jsonl  env.json (schedule,
            └────────────┴──────────── Evidence, Limits ────────┴──────────┘        limits)
    verdict.json   what only the running harness saw: convergence, where the logs begin, a node that
                   did not come back, answers that could not be read, acknowledgements without
                   a place

Nothing else of the first verdict is believed: lost, doubled, order, elections and availability are
judged anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.live.folder import read_copies
from chaos.live.judgement import Evidence, Limits
from chaos.live.nemesis import Happened
from chaos.live.observer import seen
from chaos.report.recorded import Recorded, read_run
from chaos.schedule import Planned

#: Fields of faults.jsonl that are not notes of a driver (Happened.to_fields).
_FIELDS = {
    *("number", "kind", "target", "planned_at", "planned_seconds", "nodes", "began", "ended"),
    *("recovery_seconds", "took_effect", "seen", "error"),
}


def read_evidence(root: Path) -> tuple[Evidence, Limits]:
    """For `judge_run`. Raises OSError, ValueError, KeyError, TypeError when `root` is not the
    folder of a finished run.
    """
    run = read_run(root)
    return replace(evidence_of(run), copies=read_copies(root)), limits_of(run)


def limits_of(run: Recorded) -> Limits:
    """As the run's settings had them."""
    settings = run.env["settings"]
    return Limits(
        settings["gap_seconds_max"], settings["converge_seconds_max"], settings["acked_min"]
    )


def evidence_of(run: Recorded) -> Evidence:
    """What the run left behind."""
    said = run.verdict
    told: dict[str, list[str]] = {"damaged-answer": [], "not-up-again": []}
    for one in said["anomalies"]:
        told.get(one["name"], []).append(one["detail"])
    planned = {row["number"]: Planned.from_fields(row) for row in run.env["schedule"]}
    return Evidence(
        run.history,
        run.replicas,
        [_happened(row, planned[row["number"]]) for row in run.faults],
        [seen(row) for row in run.rows],
        told["damaged-answer"],
        "".join(told["not-up-again"][:1]),
        run.env["settings"]["nodes"],
        said.get("load_seconds", run.seconds),
        said["converged_seconds"],
        begins=said.get("log_begins", 0),
        unplaced=said.get("acked_without_place", ()),
    )


def _happened(row: Mapping[str, Any], planned: Planned) -> Happened:
    return Happened(
        planned,
        tuple(row["nodes"]),
        row["began"],
        row["ended"],
        row["seen"],
        row["recovery_seconds"],
        row["error"],
        {name: value for name, value in row.items() if name not in _FIELDS},
    )
