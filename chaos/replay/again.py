"""The folder of a simulated run, judged a second time from its files: `dledger chaos check`.

    history.jsonl, replicas.json ─► the checks of the run's end      (checkers/verdict.py)
    cluster/<node>/trace.jsonl   ─► leaders, terms, votes, commits   (checkers/elections.py)
    ended.json                   ─► what only someone who sees every disk at every moment could
                                    find (sim/watch.py): believed, since no file shows it

A run that a violation ended early has no logs that replicas must agree on; its history is judged by
itself then.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.elections import find_going_back, find_two_leaders
from chaos.checkers.verdict import Verdict, Word, count, judge, some_of_each
from chaos.live.judgement import ANOMALIES_SHOWN_MAX, Judgement
from chaos.live.node_trace import told
from chaos.live.unchecked import of_clients, of_logs
from chaos.report.recorded import Recorded, read_run

LOG = "log"  # the one queue's name in replicas.json
#: What a simulated cluster has not, or its end tells otherwise (sim/world.py: `liveness`).
NOT_SIMULATED = {
    **dict.fromkeys(
        ("unavailable", "no-progress"), "the simulator asks for service at the end only"
    ),
    "unreadable-replica": "the replicas' disks were looked at while it ran",
    "damaged-answer": "answers do not pass the wire's codec of clients",
}


def judge_simulated(root: Path) -> Judgement:
    """Raises OSError, ValueError, KeyError when `root` is no folder of a recorded run."""
    run = read_run(root)
    said = run.ending
    logs = {node: queues[LOG] for node, queues in run.replicas.items()}
    found = judge(run.history, logs, unfinished=said["unfinished"], acked_min=0)
    seen = [told(row) for row in run.told]
    anomalies = [*found.anomalies, *find_two_leaders(seen), *find_going_back(seen)]
    if said["violation"] and said["violation"] not in {one.name for one in anomalies}:
        anomalies.append(Anomaly(said["violation"], said["detail"]))
    reasons = () if found.acked else ("no message was acknowledged",)
    word = Word.INVALID if anomalies else Word.UNKNOWN if reasons else Word.VALID
    verdict = count(word, found.acked, anomalies)
    return Judgement(word, verdict, reasons, _summary(run, verdict, reasons))


def _summary(run: Recorded, verdict: Verdict, reasons: tuple[str, ...]) -> dict[str, Any]:
    """Under the names of a live run's (live/judgement.py)."""
    operations = Counter((op.kind.value, op.outcome.value) for op in run.history)
    return {
        "verdict": verdict.word.name.lower(),
        **verdict.counts(),
        "violations": len(verdict.anomalies),
        "anomalies": [
            {"name": one.name, "detail": one.detail}
            for one in some_of_each(verdict.anomalies, ANOMALIES_SHOWN_MAX)
        ],
        "anomaly_counts": dict(Counter(one.name for one in verdict.anomalies)),
        "unknown_because": list(reasons),
        "operations": {
            kind: {end: n for (other, end), n in sorted(operations.items()) if other == kind}
            for kind in sorted({kind for kind, _ in operations})
        },
        "converged_seconds": None,
        "not_checked": of_clients(run.history) | of_logs(run.replicas) | NOT_SIMULATED,
        "replicas": {node: len(queues[LOG]) for node, queues in sorted(run.replicas.items())},
    }
