"""Everything a run left, judged: one word, counts, and what each fault proves.

valid     every check passed, and every fault was seen to take effect
invalid   an anomaly
unknown   no anomaly, but too little happened to mean anything, or a fault had no effect
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.availability import Window, find_unavailability, measure
from chaos.checkers.convergence import find_divergence_after_heal
from chaos.checkers.copies import Copies, find_different_copies, find_leaders_without
from chaos.checkers.elections import Seen, find_going_back, find_two_leaders
from chaos.checkers.lost import find_lost_unplaced
from chaos.checkers.queues import Replica, judge_queues
from chaos.checkers.verdict import Verdict, Word, count
from chaos.history import Level, Operation, Outcome
from chaos.live.nemesis import Happened
from chaos.live.outages import blackouts_of, windows_of

ANOMALIES_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run left behind; times in seconds of the run.

    `failure`: why it ended early; the node that did not come back has no replica here then.
    `begins`: address below which messages were deleted, 0 when none was.
    `copies`: the replicas' bytes; None when they never came to one end, or nobody read them.
    `unplaced`: values that were acknowledged without a place; `info` in the history.
    """

    history: Sequence[Operation]
    replicas: Mapping[str, Replica]
    happened: Sequence[Happened]
    trace: Sequence[Seen]
    complaints: Sequence[str]
    failure: str
    nodes: int
    seconds: float
    converged: float | None
    copies: Copies | None = None
    begins: int = 0
    unplaced: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    gap_seconds_max: float
    converge_seconds_max: float
    acked_min: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reasons`: why the word is unknown."""

    word: Word
    verdict: Verdict
    reasons: tuple[str, ...]
    summary: dict[str, Any]


def judge_run(evidence: Evidence, limits: Limits) -> Judgement:
    """Run every check over one run."""
    found = judge_queues(
        evidence.history,
        evidence.replicas,
        acked_min=limits.acked_min,
        blackouts=blackouts_of(evidence.happened, evidence.nodes),
        begins=evidence.begins,
    )
    windows = windows_of(evidence.happened, evidence.nodes, evidence.seconds)
    anomalies = [
        *found.anomalies,
        *find_lost_unplaced(evidence.unplaced, evidence.replicas, evidence.begins),
        *find_two_leaders(evidence.trace),
        *find_going_back(evidence.trace),
        *find_unavailability(evidence.history, windows, gap_max=limits.gap_seconds_max),
        *(Anomaly("damaged-answer", said) for said in evidence.complaints),
    ]
    if evidence.failure:
        anomalies.append(Anomaly("not-up-again", evidence.failure))
    else:
        anomalies += _apart(evidence, limits.converge_seconds_max)
    if evidence.copies is not None:
        anomalies += find_different_copies(evidence.copies)
        anomalies += find_leaders_without(evidence.trace, evidence.copies)
    reasons = _reasons(evidence, found.acked, limits)
    word = Word.INVALID if anomalies else Word.UNKNOWN if reasons else Word.VALID
    verdict = replace(count(word, found.acked, anomalies), taken_back=found.taken_back)
    return Judgement(word, verdict, tuple(reasons), _summary(evidence, verdict, windows, reasons))


def _apart(evidence: Evidence, seconds_max: float) -> list[Anomaly]:
    """Were all at one end, with equal logs on their disks, soon after the last fault?"""
    if evidence.converged is not None and evidence.converged <= seconds_max:
        if evidence.copies is None:
            return []
        healed = evidence.seconds
        tails = evidence.copies.tails(healed + evidence.converged)
        nodes = sorted({*evidence.replicas, *evidence.copies.of})
        return find_divergence_after_heal(tails, nodes, healed=healed, seconds_max=seconds_max)
    took = "never" if evidence.converged is None else f"after {evidence.converged:.1f} s"
    said = (
        f"the replicas came to one end {took}; {seconds_max:g} s are allowed after the last fault"
    )
    return [Anomaly("not-converged", said)]


def _reasons(evidence: Evidence, acked: int, limits: Limits) -> list[str]:
    reasons = [
        f"fault {one.planned.number}, {one.planned.kind}, had no effect that was seen"
        + (f" ({one.error})" if one.error else "")
        for one in evidence.happened
        if not one.took_effect
    ]
    if acked < limits.acked_min:
        reasons.append(f"{acked} messages were acknowledged, at least {limits.acked_min} wanted")
    if evidence.copies is None and evidence.converged is not None:
        reasons.append("the bytes of the replicas were not compared")
    return reasons


def _summary(
    evidence: Evidence, verdict: Verdict, windows: Sequence[Window], reasons: Sequence[str]
) -> dict[str, Any]:
    """One object with the names that every judging command uses."""
    operations = Counter((op.kind.value, op.outcome.value) for op in evidence.history)
    gaps = sorted(one.gap * 1e3 for one in measure(evidence.history, windows))
    effects = [one for one in evidence.happened if one.took_effect]
    return {
        "verdict": verdict.word.name.lower(),
        **verdict.counts(),
        "taken_back": verdict.taken_back,
        "acked_in_memory": sum(
            op.level is Level.IN_MEMORY and op.outcome is Outcome.OK for op in evidence.history
        ),
        "acked_without_place": list(evidence.unplaced),
        "violations": len(verdict.anomalies),
        "anomalies": [
            {"name": anomaly.name, "detail": anomaly.detail}
            for anomaly in verdict.anomalies[:ANOMALIES_SHOWN_MAX]
        ],
        "unknown_because": list(reasons),
        "operations": {
            kind: {end: n for (other, end), n in sorted(operations.items()) if other == kind}
            for kind in sorted({kind for kind, _ in operations})
        },
        "faults": {
            "carried_out": len(evidence.happened),
            "took_effect": len(effects),
            "kinds": dict(sorted(Counter(one.planned.kind for one in effects).items())),
        },
        "power_cuts": sum(int(str(one.notes.get("cuts", 0))) for one in evidence.happened),
        "lost_pages": sum(int(str(one.notes.get("lost_pages", 0))) for one in evidence.happened),
        "gap_max_ms": round(max(gaps, default=0.0), 1),
        "converged_seconds": evidence.converged,
        "log_begins": evidence.begins,
        "copies": _compared(evidence.copies),
        "replicas": {
            node: sum(len(log) for log in queues.values())
            for node, queues in sorted(evidence.replicas.items())
        },
    }


def _compared(copies: Copies | None) -> dict[str, Any] | None:
    """What was compared of the replicas' disks; `chains`: the hash behind the last entry."""
    if copies is None:
        return None
    regions = next((copy.regions for copy in copies.of.values()), {})
    return {
        "first_index": copies.first,
        "last_index": copies.last,
        "chains": {node: copy.chain[-1].hex() for node, copy in copies.of.items() if copy.chain},
        "files": len(regions),
        "bytes": sum(region.size for region in regions.values()),
    }
