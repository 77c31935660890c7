"""The shared time axis: clients' operations above, the nodes' states below, faults across all of
it.

latency      points by outcome, p50 and p99 as lines (logarithmic)
throughput   acknowledged appends a second
silence      longest times without an acknowledgement
nodes        one lane each: role by tone, term by number; a hole where nobody answered
commit       index per node
faults       one row per kind; each also shades the lanes above
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from chaos.history import Operation, Outcome
from chaos.report import figures
from chaos.report.drawing import SLIVER_SHARE, Axis, bar, chart, dot, group, line, ruler, text
from chaos.report.recorded import Recorded

#: More points than this make the page slow and show nothing more; the rest is sampled evenly.
POINTS_MAX = 4000
LATENCY_HEIGHT, RATE_HEIGHT, LANE_HEIGHT, COMMIT_HEIGHT = 150.0, 80.0, 18.0, 80.0
FAULT_HEIGHT, GAP, HEAD = 16.0, 14.0, 16.0
#: Bands of more faults than this have no tips of their own: the rows below have them.
TIPS_MAX = 300
LABEL_SHARE = 0.03
RECOVERY_SECONDS_MIN = 0.05  # less is the time of asking whether a node is ready
BINS = 120
MS_MIN = 0.3


def overview(run: Recorded) -> str:
    """The chart of a whole run."""
    axis = Axis(run.seconds)
    pieces: list[str] = []
    top = 0.0
    for draw in (_latency, _throughput, _silence, _lanes, _commits):
        drawn, height = draw(run, axis, top)
        pieces += drawn
        top += height + GAP
    tipped = len(run.faults) <= TIPS_MAX
    begun = [row for row in run.faults if row["began"] is not None]
    bands = [_band(axis, row, top, fault_tip(row) if tipped else "") for row in begun]
    rows, height = _fault_rows(run, axis, top)
    total = top + height
    drawn = [*bands, ruler(axis, 0, total), *pieces, *rows]
    return chart(total + 20, drawn, "latency, throughput, leaders and faults over the run")


def sampled(ops: Sequence[Operation], wanted: int) -> Sequence[Operation]:
    """All that did not end well if it fits, and of the others as many as fit, both evenly."""
    bad = [op for op in ops if op.outcome is not Outcome.OK]
    good = [op for op in ops if op.outcome is Outcome.OK]
    bad = bad[:: max(1, math.ceil(len(bad) * 4 / (wanted * 3)))]
    good = good[:: max(1, math.ceil(len(good) / (wanted - len(bad))))]
    return sorted([*bad, *good], key=lambda op: op.invoked)


def tip(op: Operation) -> str:
    """Returns one operation as a line for its tooltip."""
    took = "" if math.isinf(op.completed) else f" took {(op.completed - op.invoked) * 1e3:.1f} ms"
    place = f" offset {op.offset}" if op.offset >= 0 else ""
    said = f"{op.process} {op.kind.value} {op.value} {op.log}{place} {op.outcome.value}"
    return f"{said} at {op.invoked:.3f} s{took}"


def _share(ms: float, most: float) -> float:
    """Height of a latency on a logarithmic scale, 0…1."""
    if math.isnan(ms):
        return ms
    return math.log(max(ms, MS_MIN) / MS_MIN) / math.log(max(most, MS_MIN * 10) / MS_MIN)


def _latency(run: Recorded, axis: Axis, top: float) -> tuple[list[str], float]:
    appends = run.appends()
    ended = [op for op in appends if not math.isinf(op.completed)]
    most = max([(op.completed - op.invoked) * 1e3 for op in ended], default=1.0)
    body = LATENCY_HEIGHT - HEAD
    floor = top + LATENCY_HEIGHT
    pieces = [text("4", top + 11, "latency of appends, ms (log): p50 and p99, points by outcome")]
    decade = 1.0
    while decade <= most:
        y = floor - body * _share(decade, most)
        pieces.append(f'<line x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}" class="hair"/>')
        pieces.append(text("4", y - 2, f"{decade:g}", "tick"))
        decade *= 10
    for op in sampled(appends, POINTS_MAX):
        ms = most if math.isinf(op.completed) else (op.completed - op.invoked) * 1e3
        y = floor - body * _share(ms, most)
        pieces.append(dot(axis, op.invoked, y, f"op-{op.outcome.value}", tip(op)))
    bin_seconds = axis.seconds / BINS
    found = figures.latency_quantiles(appends, axis.seconds, bin_seconds, (0.5, 0.99))
    for share, values in found.items():
        points = [((i + 0.5) * bin_seconds, _share(ms, most)) for i, ms in enumerate(values)]
        pieces.append(line(axis, points, floor - body, body, f"line q{share * 100:g}"))
    return pieces, LATENCY_HEIGHT


def _throughput(run: Recorded, axis: Axis, top: float) -> tuple[list[str], float]:
    bin_seconds = axis.seconds / BINS
    values = figures.throughput(run.history, axis.seconds, bin_seconds)
    most = max([*values, 1.0])
    points = [((i + 0.5) * bin_seconds, value / most) for i, value in enumerate(values)]
    body = RATE_HEIGHT - HEAD
    return [
        text("4", top + 11, f"acknowledged appends per second, at most {most:.0f}"),
        line(axis, points, top + HEAD, body, "line rate"),
    ], RATE_HEIGHT


def _silence(run: Recorded, axis: Axis, top: float) -> tuple[list[str], float]:
    found = figures.gaps(run.history, float(run.env["settings"]["seconds"]))
    longest = max((b - a for a, b in found), default=0.0)
    head = f"no acknowledgement for {figures.GAP_SHOWN_SECONDS_MIN:g} s or more: {len(found)} times"
    said = f"{head}, longest {longest:.2f} s" if found else head
    bars = [
        bar(axis, a, b, top + HEAD, LANE_HEIGHT, "silence", f"{b - a:.2f} s from {a:.2f} s")
        for a, b in found
    ]
    return [text("4", top + 11, said), *bars], HEAD + LANE_HEIGHT


def _lanes(run: Recorded, axis: Axis, top: float) -> tuple[list[str], float]:
    pieces = [text("4", top + 11, "nodes: role and term; empty where a node did not answer")]
    spans = figures.lanes(run.rows)
    y = top + HEAD
    for node in run.nodes:
        known = figures.merged(spans.get(node, ()), 2 * SLIVER_SHARE * axis.length)
        for one in known:
            kind = f"role role-{one.role}"
            said = role_tip(node, one)
            pieces.append(bar(axis, one.begin, one.end, y, LANE_HEIGHT - 3, kind, said))
        changes = [b for a, b in pairwise(known) if b.term != a.term]
        free = 0.0  # labels left of it would stand on others
        for one in [*known[:1], *changes]:
            at = axis.share(one.begin)
            if at < free:
                continue
            free = at + LABEL_SHARE
            label = f"{node}  term {one.term}" if one is known[0] else str(one.term)
            pieces.append(text(axis.at(one.begin + 0.003 * axis.seconds), y + 11, label, "term"))
        y += LANE_HEIGHT
    return pieces, y - top


def role_tip(node: str, one: figures.Span) -> str:
    """Returns one piece of a node's lane as a line for its tooltip."""
    when = f"{one.begin:.3f} to {one.end:.3f} s"
    if one.roles == 1:
        return f"{node}: {one.role} in term {one.term}, {when}"
    return f"{node}: {one.roles} roles, longest {one.role}, until term {one.term}, {when}"


def _commits(run: Recorded, axis: Axis, top: float) -> tuple[list[str], float]:
    found = figures.committed(run.rows)
    most = max((index for points in found.values() for _, index in points), default=1.0)
    body = COMMIT_HEIGHT - HEAD
    pieces = [text("4", top + 11, f"commit index per node, at most {most:.0f}")]
    for number, node in enumerate(run.nodes):
        points = [(at, index / max(most, 1.0)) for at, index in found.get(node, ())]
        pieces.append(line(axis, points, top + HEAD, body, f"line node-{number % 5}"))
        pieces.append(text(f"{40 + 5 * number}%", top + 11, node, f"kind label-{number % 5}"))
    return pieces, COMMIT_HEIGHT


def _band(axis: Axis, row: Mapping[str, Any], height: float, said: str) -> str:
    began, ended = float(row["began"]), float(row["ended"] or axis.seconds)
    return bar(axis, began, ended, 0, height, "band", said)


def _fault_rows(run: Recorded, axis: Axis, top: float) -> tuple[list[str], float]:
    kinds = sorted({str(row["kind"]) for row in run.faults})
    pieces = [text("4", top + 11, "faults; hollow: until the node was ready again")]
    for number, kind in enumerate(kinds):
        y = top + HEAD + number * FAULT_HEIGHT
        for row in run.faults:
            if row["kind"] != kind or row["began"] is None:
                continue
            began, ended = float(row["began"]), float(row["ended"] or axis.seconds)
            style = "fault" if row["took_effect"] else "fault no-effect"
            back = ended + float(row["recovery_seconds"])
            drawn = [bar(axis, began, ended, y, FAULT_HEIGHT - 4, style, "")]
            if back - ended >= RECOVERY_SECONDS_MIN:
                drawn.insert(0, bar(axis, ended, back, y, FAULT_HEIGHT - 4, "recovering", ""))
            pieces.append(group(drawn, fault_tip(row)))
        pieces.append(text("4", y + 10, kind, "kind"))
    return pieces, HEAD + len(kinds) * FAULT_HEIGHT


def fault_tip(row: Mapping[str, Any]) -> str:
    """Returns one fault as a line for its tooltip."""
    seen = row["seen"] or f"NO EFFECT {row['error']}"
    return f"{row['kind']} on {','.join(row['nodes'])} at {row['began']:.2f} s: {seen}"
