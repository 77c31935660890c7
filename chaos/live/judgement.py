"""Judges all evidence of a run: one word, counts, and the proven effect of each fault.

valid     every check passed, and every fault was seen to take effect
invalid   an anomaly
unknown   no anomaly, but too little happened to mean anything, or a fault had no effect
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.availability import Window, find_unavailability, measure
from chaos.checkers.beginnings import find_unread
from chaos.checkers.blind import with_values
from chaos.checkers.convergence import find_divergence_after_heal
from chaos.checkers.copies import Copies, find_different_copies, find_leaders_without
from chaos.checkers.deferred import as_appends
from chaos.checkers.elections import Seen, find_going_back, find_two_leaders
from chaos.checkers.ends import find_unseen_ends
from chaos.checkers.jumps import Begins, find_wrong_jumps
from chaos.checkers.levels import Blackout, take_back
from chaos.checkers.lost import find_lost_unplaced
from chaos.checkers.membership import find_early_changes, find_membership_splits, with_times
from chaos.checkers.offsets import find_holes
from chaos.checkers.queues import Replica, judge_queues
from chaos.checkers.seen import find_unseen
from chaos.checkers.verdict import Verdict, Word, count, some_of_each
from chaos.history import Kind, Level, Operation, Outcome
from chaos.live.deferred_judgement import judge_deferred
from chaos.live.demands import find_slow_service, judged_windows
from chaos.live.nemesis import Happened
from chaos.live.outages import blackouts_of, windows_by_fault, windows_of
from chaos.live.unchecked import not_checked

ANOMALIES_SHOWN_MAX = 200
ASKED_MIN = 10  # a kind of operation that was asked for so often must have ended well once
#: Who decides of a half may be left to brokers that ask, and they are told "unknown" by design.
_OF_GROUPS_OF_PRODUCERS = (Kind.HALF_COMMIT, Kind.HALF_ROLLBACK)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one run; times in seconds since it began.

    `failure`: why the run ended early; a node that did not come back has no replica here then.
    `begins`: address below which messages were deleted, 0 if none was. `copies`: the replicas'
    bytes; None if they never reached one end or could not be read. `unplaced`: values acknowledged
    without a position; `info` in the history. `told`: rows that nodes wrote about themselves as
    they happened (node_trace.py). `ended`: False if the run died, so that its replicas were not
    read. `watched`: until when readers waited for delayed and transactional messages. `mistakes`:
    exceptions in the nodes' logs (cluster/local/stories.py).
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
    told: Sequence[Seen] = ()
    ended: bool = True
    watched: float = 0.0
    mistakes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that a run is judged by. `rate`: intended sends a second, 0 if unknown."""

    gap_seconds_max: float
    converge_seconds_max: float
    acked_min: int
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reasons`: why the word is unknown."""

    word: Word
    verdict: Verdict
    reasons: tuple[str, ...]
    summary: dict[str, Any]


def judge_run(evidence: Evidence, limits: Limits) -> Judgement:
    """Run every check over one run."""
    blackouts = blackouts_of(evidence.happened, evidence.nodes)
    found = judge_queues(
        list(with_values(as_appends(evidence.history), evidence.replicas, evidence.begins)),
        evidence.replicas,
        acked_min=limits.acked_min,
        blackouts=blackouts,
        begins=evidence.begins,
    )
    silence = limits.gap_seconds_max
    by_fault = windows_by_fault(evidence.happened, evidence.nodes)
    windows = windows_of(evidence.happened, evidence.nodes, evidence.seconds)
    deferred = judge_deferred(
        evidence.history,
        evidence.replicas,
        evidence.happened,
        begins=evidence.begins,
        healed=evidence.seconds,
        watched=evidence.watched,
    )
    passed_by, at_ends = _passed_by(evidence)
    anomalies = [
        *found.anomalies,
        *deferred.anomalies,
        *passed_by,
        *_of_nodes(evidence),
        *find_lost_unplaced(evidence.unplaced, evidence.replicas, evidence.begins),
        *_wrong_jumps(evidence),
        *_holes(evidence),
        *find_unavailability(evidence.history, windows, gap_max=silence),
        *find_slow_service(evidence.history, windows, by_fault, rate=limits.rate, silence=silence),
        *(Anomaly("damaged-answer", said) for said in evidence.complaints),
    ]
    if evidence.failure:
        anomalies.append(Anomaly("not-up-again", evidence.failure))
    else:
        anomalies += _apart(evidence, limits.converge_seconds_max)
    unread = _unread(evidence, blackouts)
    reasons = [*_reasons(evidence, found.acked, unread, limits), *deferred.reasons]
    if at_ends and evidence.ended:
        reasons.append(
            f"{at_ends} acknowledged messages at the ends of queues were shown to no reader: the "
            "tail reader did not come to the end before the run did"
        )
    word = Word.INVALID if anomalies else Word.UNKNOWN if reasons else Word.VALID
    verdict = replace(count(word, found.acked, anomalies), taken_back=found.taken_back)
    summary = _summary(evidence, verdict, windows, reasons) | deferred.summary
    summary["acked_deleted_unread"] = unread
    long_enough = judged_windows(windows, by_fault, silence=silence)
    summary["not_checked"] = not_checked(
        evidence.history,
        evidence.trace,
        evidence.copies,
        long_enough,
        replicas=evidence.replicas,
        ended=evidence.ended,
        told=evidence.told,
    )
    return Judgement(word, verdict, tuple(reasons), summary)


def _of_nodes(evidence: Evidence) -> list[Anomaly]:
    """Finds anomalies in the nodes' own traces, in the bytes on their disks and in the drivers'
    observations."""
    looks, told, copies = evidence.trace, evidence.told, evidence.copies
    found = [
        *(Anomaly("mistake", said) for said in evidence.mistakes),
        *find_two_leaders(sorted([*looks, *told], key=lambda seen: seen.time)),
        *find_going_back(looks),
        *find_going_back(told),
        *find_early_changes(told),
        *(  # drivers/votes.py, file_damage.py, backup.py
            Anomaly(str(one.notes.get("breaks", "vote-changed")), str(one.notes["broken"]))
            for one in evidence.happened
            if one.notes.get("broken")
        ),
    ]
    if copies is not None:
        leaders = [*find_leaders_without(looks, copies), *find_leaders_without(told, copies)]
        found += [*find_different_copies(copies), *dict.fromkeys(leaders)]
        found += find_membership_splits(with_times(copies.changes or (), looks))
    return found


def _wrong_jumps(evidence: Evidence) -> list[Anomaly]:
    """Where nodes told where their logs began; those of earlier versions did not."""
    told = [
        Begins(one.time, one.node, one.begins) for one in evidence.trace if one.begins is not None
    ]
    return find_wrong_jumps(evidence.history, told) if told else []


def _holes(evidence: Evidence) -> list[Anomaly]:
    """Queues of replicas that do not count one after the other; equal ones are told once."""
    found = {
        Anomaly(one.name, f"{queue}: {one.detail}"): None
        for node in sorted(evidence.replicas)
        for queue, log in sorted(evidence.replicas[node].items())
        for one in find_holes(log, evidence.begins)
    }
    return list(found)


def _passed_by(evidence: Evidence) -> tuple[list[Anomaly], int]:
    """Finds messages that are still in the log, behind every position to which a reader was sent
    on, and that no consumer got. Also counts those at the ends of queues that cannot be judged.
    """
    shown: dict[str, list[Operation]] = defaultdict(list)
    sent_on: Counter[str] = Counter()
    for op in evidence.history:
        if op.kind in (Kind.POLL, Kind.APPEND):
            shown[op.log].append(op)
        elif op.kind is Kind.SEEK:
            sent_on[op.log] = max(sent_on[op.log], op.offset)
    anomalies, at_ends = [], 0
    for node in sorted(evidence.replicas)[:1]:
        for queue, log in sorted(evidence.replicas[node].items()):
            rest = [row for row in log if row[0] >= sent_on[queue]]
            ends = find_unseen_ends(shown[queue], rest)
            found = [*find_unseen(shown[queue], rest), *ends.anomalies]
            anomalies += [Anomaly(one.name, f"{queue}: {one.detail}") for one in found]
            at_ends += ends.open
    return anomalies, at_ends


def _unread(evidence: Evidence, blackouts: Sequence[Blackout]) -> int:
    """Counts acknowledged messages that were deleted before any consumer got them."""
    history, _ = take_back(evidence.history, evidence.replicas.values(), blackouts)
    return len(find_unread(history, evidence.begins))


def _apart(evidence: Evidence, seconds_max: float) -> list[Anomaly]:
    """Were all at one end, with equal logs on their disks, soon after the last fault?"""
    if not evidence.ended:
        return []
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


def _reasons(evidence: Evidence, acked: int, unread: int, limits: Limits) -> list[str]:
    reasons = [
        f"fault {one.planned.number}, {one.planned.kind}, had no effect that was seen"
        + (f" ({one.why_not})" if one.why_not else "")
        for one in evidence.happened
        if not one.took_effect and one.began is not None
    ]
    waiting = sum(one.began is None for one in evidence.happened)
    if waiting:
        reasons.append(f"{waiting} of {len(evidence.happened)} faults had not begun when it ended")
    if not evidence.ended:
        reasons.append("the run did not end: no replica was read")
    elif not evidence.replicas:
        reasons.append("no replica's log was read")
    if acked < limits.acked_min:
        reasons.append(f"{acked} messages were acknowledged, at least {limits.acked_min} wanted")
    reasons += _unanswered(evidence.history)
    if evidence.begins and evidence.unplaced and (gone := _untold(evidence)):
        reasons.append(
            f"{gone} messages that were acknowledged as repeats, without a place, are in no log "
            "and were shown to nobody: they were deleted, or lost"
        )
    if unread:
        reasons.append(
            f"{unread} acknowledged messages were deleted before any reader was shown them, so "
            "nobody can tell whether they were kept: give the nodes larger disks, or load at a "
            "rate with which the tail reader keeps pace"
        )
    if evidence.copies is None and evidence.converged is not None:
        reasons.append("the bytes of the replicas were not compared")
    return reasons


def _unanswered(history: Sequence[Operation]) -> list[str]:
    """Kinds of operations that were asked for often and none of which ended well."""
    asked = Counter(op.kind for op in history)
    ended = {op.kind for op in history if op.outcome is Outcome.OK}
    return [
        f"none of {count} operations of the kind {kind.value} ended well, so they prove nothing"
        for kind, count in sorted(asked.items(), key=lambda item: item[0].value)
        if count >= ASKED_MIN and kind not in ended and kind not in _OF_GROUPS_OF_PRODUCERS
    ]


def _untold(evidence: Evidence) -> int:
    """Counts values acknowledged without a position that no consumer got and no replica's log
    holds."""
    queues = (log for replica in evidence.replicas.values() for log in replica.values())
    held = {value for log in queues for _, value in log}
    polls = (op for op in evidence.history if op.kind is Kind.POLL and op.outcome is Outcome.OK)
    shown = {value for op in polls for _, value in op.values}
    return sum(value not in held and value not in shown for value in evidence.unplaced)


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
            for anomaly in some_of_each(verdict.anomalies, ANOMALIES_SHOWN_MAX)
        ],
        "anomaly_counts": dict(Counter(anomaly.name for anomaly in verdict.anomalies)),
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
    """Summary of the comparison of the replicas' disks; `chains` holds each node's hash behind its
    last entry."""
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
