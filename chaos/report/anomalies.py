"""One section per anomaly: its sentence, its operations, the faults around, the logs around.

The logs stand side by side, one column per replica, five places each way; a row in which replicas
differ is marked, and the queue's first difference is named even when it is elsewhere.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from chaos.history import Operation, Outcome
from chaos.report import spacetime
from chaos.report.overview import tip
from chaos.report.recorded import Recorded
from chaos.report.tables import table

AROUND = 5  # places of the log on either side
SECONDS_AROUND = 3.0
OPERATIONS_SHOWN_MAX = 12
DIAGRAMS_MAX = 8  # of anomalies; the page stays one that a browser likes
SECTIONS_MAX = 60  # the others are in verdict.json

_QUEUE = re.compile(r"^([a-z]\d+): ")
_MOMENT = re.compile(r"(?:at|from) (\d+\.\d+) s")
_PLACE = re.compile(r"(?:offset|at|below|number|got|wanted) (\d+)(?![\d.]| s)")


@dataclass(frozen=True, slots=True)
class Focus:
    """Where an anomaly is: its queue ("" when it is of nodes), place in the log, operations.

    `said`: the first moment that its sentence names, in seconds of the run.
    """

    queue: str
    place: int | None
    operations: Sequence[Operation]
    said: float | None = None
    end: float | None = None

    @property
    def moment(self) -> float | None:
        """The time that the anomaly's sentence names; else the end of its last operation, or its
        beginning if the end is unknown; else the end of a run that it ended. Seconds.
        """
        if self.said is not None:
            return self.said
        named = [op for op in self.operations if not op.values] or self.operations
        ends = [op.invoked if math.isinf(op.completed) else op.completed for op in named]
        return max(ends, default=self.end)


def focus(run: Recorded, detail: str) -> Focus:
    """Finds the queue, the offset, the operations and the time that a checker's sentence names."""
    match = _QUEUE.match(detail)
    queue = match[1] if match else ""
    if not match and run.env.get("arena") == "simulator":
        queue = next(iter(next(iter(run.replicas.values()), {})), "")  # the one log that there is
    words = set(re.findall(r"[\w-]+", detail))
    ops = [
        op for op in run.history if _is_named(op, words) and (not queue or op.log in ("", queue))
    ]
    ops.sort(key=lambda op: bool(op.values))  # a poll may show half of the log
    placed = [op.offset for op in ops if op.offset >= 0 and op.outcome is Outcome.OK]
    said = _PLACE.search(detail)
    place = placed[0] if placed else int(said[1]) if said else None
    when = _MOMENT.search(detail)
    moment = float(when[1]) if when else None
    # A violation that an invariant saw ends a simulated run; one that its history shows does not.
    ended = run.env.get("arena") == "simulator" and run.ending.get("detail") == detail
    end = float(run.verdict["seconds"]) if ended else None
    return Focus(queue, place, ops[:OPERATIONS_SHOWN_MAX], moment, end)


def _is_named(op: Operation, words: set[str]) -> bool:
    """By its value, or by one that it was shown."""
    if op.value and op.value in words:
        return True
    return any(value in words for _, value in op.values)


def first_difference(run: Recorded, queue: str) -> int | None:
    """Smallest offset at which two replicas do not hold the same; None when they agree."""
    logs = [dict(replica.get(queue, ())) for replica in run.replicas.values()]
    places = sorted(set().union(*logs)) if logs else []
    return next((at for at in places if len({log.get(at) for log in logs}) > 1), None)


def sections(run: Recorded) -> str:
    """All of them, folded but for the first; a sentence when there is none."""
    found = run.verdict["anomalies"]
    if not found:
        return "<p>None.</p>"
    shown = [
        _section(run, number, one["name"], one["detail"])
        for number, one in enumerate(found[:SECTIONS_MAX])
    ]
    if run.verdict["violations"] > len(shown):
        shown.append(f"<p>{run.verdict['violations'] - len(shown)} more are not shown here.</p>")
    return "".join(shown)


def _section(run: Recorded, number: int, name: str, detail: str) -> str:
    about = focus(run, detail)
    parts = [f"<p>{escape(detail)}</p>"]
    if about.operations:
        parts.append("<h4>Operations</h4>")
        parts.append(table(("operation",), [(tip(op),) for op in about.operations]))
    parts.append(_faults_around(run, about.moment))
    if about.moment is not None and number < DIAGRAMS_MAX:
        parts.append(_diagram(run, about.moment))
    parts.append(_logs(run, about))
    opened = " open" if number == 0 else ""
    return (
        f'<details class="anomaly" id="anomaly-{number}"{opened}>'
        f"<summary>{number + 1}. {escape(name)}</summary>{''.join(parts)}</details>"
    )


def _diagram(run: Recorded, moment: float) -> str:
    drawn = spacetime.around(run, moment)
    if not drawn:
        return ""
    return f'<h4>Nodes around it</h4><div class="scroll"><div>{drawn}</div></div>'


def faults_around(run: Recorded, moment: float) -> list[tuple[str, str, str, str]]:
    """Returns time, kind, nodes and observed effect of each fault near a moment."""
    return [
        (f"{row['began']:.2f}", row["kind"], ",".join(row["nodes"]), row["seen"] or row["error"])
        for row in run.faults
        if row["began"] is not None
        and float(row["began"]) <= moment + SECONDS_AROUND
        and float(row["ended"] or run.seconds) >= moment - SECONDS_AROUND
    ]


def _faults_around(run: Recorded, moment: float | None) -> str:
    if moment is None:
        return ""
    rows = faults_around(run, moment)
    head = f"<h4>Faults within {SECONDS_AROUND:g} s of {moment:.3f} s</h4>"
    return head + (table(("t (s)", "fault", "on", "seen"), rows) if rows else "<p>None.</p>")


class LogsAround(NamedTuple):
    """Replicas side by side; `kinds` marks the place itself and rows in which replicas differ."""

    said: str
    nodes: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    kinds: Sequence[str]
    place: str = "offset"


def logs_around(run: Recorded, about: Focus) -> LogsAround | None:
    """None when the anomaly is of no queue, or no replica was read.

    Of a violation that ended a simulated run the ends of the logs, by entry.
    """
    if about.end is not None and run.log_ends:
        return _ends_of_logs(run)
    if not about.queue or not run.replicas:
        return None
    differs = first_difference(run, about.queue)
    place = about.place if about.place is not None else differs
    said = "no replica differs" if differs is None else f"replicas first differ at offset {differs}"
    nodes = sorted(run.replicas)
    logs = {node: dict(run.replicas[node].get(about.queue, ())) for node in nodes}
    rows, kinds = [], []
    shown = () if place is None else range(max(0, place - AROUND), place + AROUND + 1)
    for at in shown:
        values = [logs[node].get(at) for node in nodes]
        rows.append((str(at), *("absent" if value is None else value for value in values)))
        kinds.append("here" if at == place else "differs" if len(set(values)) > 1 else "")
    return LogsAround(f"Log of {about.queue} on each replica ({said})", nodes, rows, kinds)


def _ends_of_logs(run: Recorded) -> LogsAround:
    logs: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in run.log_ends:
        logs[row["node"]][row["entry"]] = row
    nodes = run.nodes
    rows, kinds = [], []
    for at in sorted(set().union(*logs.values())):
        found = [logs[node].get(at) for node in nodes]
        rows.append((str(at), *(_entry(row) for row in found)))
        forms = {(row["term"], row["chain"]) for row in found if row is not None}
        kinds.append("differs" if len(forms) > 1 else "")
    return LogsAround("Ends of the nodes' logs when it was seen", nodes, rows, kinds, "entry")


def _entry(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    pending = "" if row["on_disk"] else ", not on disk"
    return f"term {row['term']}{', ' * bool(row['value'])}{row['value']}{pending}"


def _logs(run: Recorded, about: Focus) -> str:
    found = logs_around(run, about)
    if found is None:
        return ""
    head = f"<h4>{found.said}</h4>"
    columns = (found.place, *found.nodes)
    return head + (table(columns, found.rows, found.kinds) if found.rows else "")
