"""Charts of each process's operations over time, and of the fate of each value that was sent."""

from __future__ import annotations

import math
from collections import defaultdict

from chaos.history import Level, Operation, Outcome
from chaos.report.drawing import Axis, bar, chart, dot, ruler, text
from chaos.report.overview import sampled, tip
from chaos.report.recorded import Recorded

#: More operations make a page that no browser likes; what ended well is sampled evenly then.
OPERATIONS_MAX = 6000
POINTS_MAX = 2000  # of each fate; the counts beside them are of all
#: Lanes shown; processes retire after an unknown outcome, so a long run has thousands.
PROCESSES_MAX = 80
LANE_HEIGHT, PLOT_HEIGHT, HEAD = 16.0, 170.0, 16.0
FATES = ("ok", "not-read", "lost", "deleted", "from-memory", "unknown", "failed", "unseen")


def timeline(run: Recorded) -> tuple[str, str]:
    """Draws one lane per process. Returns (the chart, a sentence about the operations left out, or
    "")."""
    axis = Axis(run.seconds)
    parts: dict[str, list[Operation]] = defaultdict(list)
    for op in run.history:
        parts[op.process.split("_")[0]].append(op)
    names = sorted(parts)[:PROCESSES_MAX]
    kept = [op for name in names for op in parts[name]]
    shown = sampled(kept, OPERATIONS_MAX)
    rows = {name: number for number, name in enumerate(names)}
    pieces = [ruler(axis, 0, len(names) * LANE_HEIGHT)]
    for op in shown:
        y = rows[op.process.split("_")[0]] * LANE_HEIGHT + 2
        end = axis.seconds if math.isinf(op.completed) else op.completed
        if math.isinf(op.completed):
            end = min(end, op.invoked + 0.02 * axis.seconds)
        kind = f"op op-{op.outcome.value}"
        pieces.append(bar(axis, op.invoked, end, y, LANE_HEIGHT - 4, kind, tip(op)))
    for name, number in rows.items():
        pieces.append(text("4", number * LANE_HEIGHT + 12, name, "kind"))
    note = ""
    if len(shown) < len(run.history):
        note = (
            f"{len(shown)} of {len(run.history)} operations are drawn, in {len(names)} of "
            f"{len(parts)} lanes: those that did not end well, and an even sample of the others."
        )
    drawn = chart(len(names) * LANE_HEIGHT + 20, pieces, "operations of each client over time")
    return drawn, note


def fates(run: Recorded) -> dict[str, list[Operation]]:
    """Sorts the appends by their fate, by the union and the intersection of all final logs.

    ok: acknowledged and in every log. lost: acknowledged and missing in one of them. unknown: no
    answer. failed: refused for certain. unseen: no answer, and in no log. from-memory: acknowledged
    in memory and in no log; a power cut may do that, and the verdict says whether it did. deleted:
    with the beginning of the logs. not-read: acknowledged, and no replica was read.
    """
    logs = [
        {value for log in replica.values() for _, value in log} for replica in run.replicas.values()
    ]
    everywhere = set.intersection(*logs) if logs else set()
    anywhere = set.union(*logs) if logs else set()
    found: dict[str, list[Operation]] = {name: [] for name in FATES}
    for op in run.appends():
        if op.outcome is Outcome.OK:
            name = "ok" if op.value in everywhere else "lost" if logs else "not-read"
            if 0 <= op.position < int(run.verdict.get("log_begins", 0)):
                name = "deleted"
            elif op.level is Level.IN_MEMORY and op.value not in anywhere:
                name = "from-memory"
        elif op.outcome is Outcome.FAIL:
            name = "failed"
        else:
            name = "unknown" if op.value in anywhere else "unseen"
        found[name].append(op)
    return found


def lost_plot(run: Recorded) -> str:
    """Every value by the time it was sent (x) and its place in the order of sending (y)."""
    axis = Axis(run.seconds)
    found = fates(run)
    order = {id(op): at for at, op in enumerate(run.appends())}
    most = max(len(order), 1)
    body = PLOT_HEIGHT - HEAD
    pieces = [
        ruler(axis, 0, PLOT_HEIGHT),
        text("4", 11, "  ".join(f"{name} {len(ops)}" for name, ops in found.items())),
    ]
    for name in FATES:
        step = max(1, math.ceil(len(found[name]) / POINTS_MAX))
        ops = found[name][::step]
        for op in ops:
            y = PLOT_HEIGHT - body * order[id(op)] / most
            pieces.append(dot(axis, op.invoked, y, f"fate-{name}", tip(op)))
    return chart(PLOT_HEIGHT + 20, pieces, "what became of every value that was sent")
