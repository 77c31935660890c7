"""A backlog report as one HTML file: tables and plots (SVG), without external resources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape

from pipeline.jobs.backlog import Report

Points = Sequence[tuple[datetime, float]]
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 180, 64, 24
_COLOURS = ("#0b6e4f", "#c84c09", "#1d4e89", "#8d3b72", "#7a6c00", "#555555")
LINES_MAX = len(_COLOURS)  # of one plot; more cannot be told apart

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Backlog</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse;width:100%}} th,td{{padding:.2em .6em;text-align:right}}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){{text-align:left}}
tr:nth-child(even) td{{background:#f2f2f2}} svg{{width:100%;height:auto}} text{{font-size:11px}}
</style></head><body>
<h1>Backlog and throughput</h1><p>Made {made}.</p>
<h2>Groups</h2>{groups}
<h2>Messages in, per minute</h2>{throughput}
<h2>Unread messages, by the minute they came in</h2>{unread}
</body></html>
"""


def page(report: Report) -> str:
    """The whole file."""
    incoming: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for row in report.throughput:
        incoming[row.topic].append((row.minute, row.messages))
    waiting: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for unread in report.unread:
        waiting[f"{unread.topic} · {unread.group}"].append((unread.minute, unread.messages))
    return _PAGE.format(
        made=escape(report.made.isoformat(timespec="seconds")),
        groups=_groups(report),
        throughput=plot(incoming),
        unread=plot(waiting),
    )


def _groups(report: Report) -> str:
    if not report.groups:
        return "<p>No group has a position.</p>"
    rows = [
        f"<tr><td>{escape(row.topic)}</td><td>{escape(row.group)}</td><td>{row.messages:,}</td>"
        f"<td>{_age(row.oldest_age_s) if row.messages else '–'}</td></tr>"
        for row in sorted(report.groups, key=lambda row: -row.messages)
    ]
    head = "<tr><th>topic</th><th>group</th><th>unread</th><th>oldest</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _age(seconds: float) -> str:
    for limit, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= limit:
            return f"{seconds / limit:.1f} {unit}"
    return f"{seconds:.0f} s"


def plot(lines: Mapping[str, Points]) -> str:
    """Lines over time; of more than LINES_MAX the highest, and how many were left out."""
    if not lines:
        return "<p>Nothing to show.</p>"
    order = sorted(lines, key=lambda name: -max(value for _, value in lines[name]))
    shown = order[:LINES_MAX]
    times = [at.timestamp() for name in shown for at, _ in lines[name]]
    first, span = min(times), max(max(times) - min(times), 60.0)
    top = max(max(value for _, value in lines[name]) for name in shown) or 1.0
    drawn = [
        _line(lines[name], colour, first, span, top)
        for name, colour in zip(shown, _COLOURS, strict=False)
    ]
    legend = " ".join(
        f'<span style="color:{colour}">■ {escape(name)}</span>'
        for name, colour in zip(shown, _COLOURS, strict=False)
    )
    more = f" and {len(order) - len(shown)} lower ones" if len(order) > len(shown) else ""
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{_axes(first, span, top)}'
        f"{''.join(drawn)}</svg><p>{legend}{more}</p>"
    )


def _x(at: float, first: float, span: float) -> float:
    return LEFT + (at - first) / span * (WIDTH - LEFT - 8)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - 10)


def _line(points: Points, colour: str, first: float, span: float, top: float) -> str:
    places = [(_x(at.timestamp(), first, span), _y(value, top)) for at, value in sorted(points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places)
    return f'<g fill="{colour}" stroke="{colour}"><polyline points="{path}" fill="none"/>{dots}</g>'


def _axes(first: float, span: float, top: float) -> str:
    parts = [f'<g stroke="#bbb"><line x1="{LEFT}" y1="10" x2="{LEFT}" y2="{HEIGHT - BOTTOM}"/>']
    parts.append(
        f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - 8}" y2="{HEIGHT - BOTTOM}"/></g>'
    )
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top) + 4
        parts.append(
            f'<text x="{LEFT - 6}" y="{y:.1f}" text-anchor="end">{top * share:,.0f}</text>'
        )
    for share, anchor in ((0.0, "start"), (1.0, "end")):
        at = datetime.fromtimestamp(first + span * share).astimezone()
        x = _x(first + span * share, first, span)
        label = at.strftime("%d %b %H:%M")
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{label}</text>')
    return "".join(parts)
