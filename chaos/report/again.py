"""The evidence of a run, put together again from its folder, for a second judgement.

    history.jsonl  replicas.json  copies.json  nodes.jsonl  faults.jsonl  env.json (schedule,
            └────────────┴──────────── Evidence, Limits ────────┴──────────┘        limits)
    ended.json     what only the running harness saw: convergence, where the logs begin, a node that
                   did not come back, answers that could not be read, acknowledgements without
                   a place, until when readers watched (verdict.json, of an earlier release)

Nothing of the first verdict is believed: lost, doubled, order, elections and availability are
judged anew. A run that died has neither: its history, elections and availability are judged up
to the first fault whose end nobody saw, and the word is unknown at best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.faults import kind_of
from chaos.live.evidence_files import VERDICT, read_copies, wrong_with
from chaos.live.judgement import Evidence, Limits, judge_run
from chaos.live.nemesis import Happened
from chaos.live.node_trace import told as told_by_node
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
    folder of a run.
    """
    run = read_run(root)
    return replace(evidence_of(run), copies=read_copies(root)), limits_of(run)


def with_verdict(root: Path, *, anew: bool = False) -> Recorded:
    """Returns the recorded run; one without a verdict gets one from its evidence, as far as that
    goes.

    What is not as the run left it makes the word unknown, whatever it was (replay/check.py). So
    does a verdict that the evidence of a live run contradicts, when it is judged `anew`.

    Raises as `read_evidence`.
    """
    run = read_run(root)
    if not run.verdict and "violation" in run.ending:
        raise ValueError(f"{VERDICT} is missing or damaged; dledger chaos check judges it anew")
    verdict = run.verdict or judge_run(*read_evidence(root)).summary
    if anew and run.verdict and "violation" not in run.ending:
        verdict = _compared(run.verdict, judge_run(*read_evidence(root)).summary)
    if wrong := wrong_with(root)[0]:
        reasons = [*wrong, *verdict["unknown_because"]]
        verdict = {**verdict, "verdict": "unknown", "unknown_because": reasons}
    return replace(run, verdict=verdict)


def _compared(then: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the verdict as written; where the evidence contradicts it, with the evidence's
    figures and the word "unknown"."""
    names = ("verdict", "acked", "lost", "doubled", "reordered", "violations")
    differ = [name for name in names if then.get(name) != now[name]]
    if not differ:
        return then
    words = ", ".join(f"{name} {then.get(name)} and not {now[name]}" for name in differ)
    reasons = [f"{VERDICT} says otherwise than the evidence: {words}", *now["unknown_because"]]
    return {**then, **now, "verdict": "unknown", "unknown_because": reasons}


def limits_of(run: Recorded) -> Limits:
    """As the run's settings had them."""
    settings = run.env["settings"]
    return Limits(
        settings["gap_seconds_max"],
        settings["converge_seconds_max"],
        settings["acked_min"],
        settings.get("workload", {}).get("rate", 0.0),
    )


def evidence_of(run: Recorded) -> Evidence:
    """Returns the evidence of the recorded run."""
    if not run.ended:
        return _evidence_of_dead(run)
    said = run.ending
    told: dict[str, list[str]] = {"damaged-answer": [], "not-up-again": [], "mistake": []}
    for one in said["anomalies"]:
        told.get(one["name"], []).append(one["detail"])
    return Evidence(
        run.history,
        run.replicas,
        _happened(run),
        [seen(row) for row in run.rows],
        told["damaged-answer"],
        "".join(told["not-up-again"][:1]),
        run.env["settings"]["nodes"],
        said.get("load_seconds", run.seconds),
        said["converged_seconds"],
        begins=said.get("log_begins", 0),
        unplaced=said.get("acked_without_place", ()),
        told=[told_by_node(row) for row in run.told],
        watched=said.get("watched_seconds", 0.0),
        mistakes=told["mistake"],
    )


def _evidence_of_dead(run: Recorded) -> Evidence:
    known = {row["number"] for row in run.faults}
    unknown = [float(row["at"]) for row in run.env["schedule"] if row["number"] not in known]
    ends = [op.invoked if math.isinf(op.completed) else op.completed for op in run.history]
    return Evidence(
        run.history,
        {},
        _happened(run),
        [seen(row) for row in run.rows],
        (),
        "",
        run.env["settings"]["nodes"],
        min([max(ends, default=0.0), *unknown]),
        None,
        told=[told_by_node(row) for row in run.told],
        ended=False,
    )


def _happened(run: Recorded) -> list[Happened]:
    planned = {row["number"]: Planned.from_fields(row) for row in run.env["schedule"]}
    for row in run.faults:
        known = planned.get(row["number"])
        if known is None:
            said = f"fault {row['number']}, {row['kind']}, is not in the schedule of env.json"
            raise ValueError(f"faults.jsonl cannot be read: {said}")
        kind_of(known.kind)  # an unknown one is refused here, and not in the middle of a check
    return [_one(row, planned[row["number"]]) for row in run.faults]


def _one(row: Mapping[str, Any], planned: Planned) -> Happened:
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
