"""report.html: one file without external resources, to be read in a browser, mailed or zipped.

    verdict · checks · time axis · clients · fate of every value · anomalies · replicas ·
    coverage of faults · recovery · each fault · environment · files          (docs/spec/chaos.md 7)

`report.css` and `report.js` beside this module are copied into the page. Without scripts all of it
can be read; with them, charts zoom and a click on an operation keeps its line in sight.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from chaos.report import anomalies, clients, spacetime, tables
from chaos.report.again import with_verdict
from chaos.report.each_fault import HEAD, fault_rows
from chaos.report.overview import overview
from chaos.report.recorded import Recorded
from chaos.report.texts import write_texts

HERE = Path(__file__).parent
ROWS_OPEN_MAX = 40  # longer tables are unfolded by who wants them


def write_report(root: Path, *, anew: bool = False) -> Path:
    """Make the report of a run's folder, whole or not at all, and a text for each anomaly.

    `anew`: the evidence is judged, and verdict.json is not believed.

    Raises OSError, ValueError, KeyError when `root` is not the folder of a finished run.
    """
    target = root / "report.html"
    unfinished = root / f".report-{os.getpid()}.html"
    run = with_verdict(root, anew=anew)
    texts = write_texts(root, run)
    listed = replace(run, files=sorted({*run.files, *texts}))
    unfinished.write_text(render(listed), encoding="utf-8")
    unfinished.replace(target)
    return target


def render(run: Recorded) -> str:
    """The page."""
    chart, note = clients.timeline(run)
    word = str(run.verdict["verdict"])
    sections = [
        ("Checks", tables.checks(run) + tables.operations(run)),
        ("The run on one time axis", _zoomable(overview(run)) + _key()),
        ("Nodes in space and time", _space_time(run)),
        ("Clients", _zoomable(chart) + f"<p>{escape(note)}</p>"),
        ("What became of every value sent", _zoomable(clients.lost_plot(run))),
        (f"Anomalies ({run.verdict['violations']})", anomalies.sections(run)),
        ("Replicas", tables.replicas(run)),
        ("Faults: kinds and targets", tables.coverage(run)),
        ("Recovery by kind of fault", tables.recovery(run)),
        ("Faults, one by one", _each_fault(run)),
        ("Weather", _weathers(run)),
        ("Environment", tables.environment(run)),
        ("Files of this run", _files(run)),
    ]
    body = "".join(f"<section><h2>{escape(head)}</h2>{part}</section>" for head, part in sections)
    style = (HERE / "report.css").read_text("utf-8")
    script = (HERE / "report.js").read_text("utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(word.upper())} {escape(run.name)}</title><style>{style}</style></head>"
        f"<body><main>{_head(run, word)}{body}</main>"
        f'<output id="chosen" hidden></output><script>{script}</script></body></html>\n'
    )


def _head(run: Recorded, word: str) -> str:
    said = run.verdict
    numbers = "".join(
        f"<div><b>{said[name]}</b><span>{label}</span></div>"
        for name, label in (
            ("acked", "acknowledged"),
            ("lost", "lost"),
            ("doubled", "doubled"),
            ("reordered", "reordered"),
            ("others", "other anomalies"),
            ("taken_back", "in memory and taken back, as allowed"),
        )
        if name in said  # folders of earlier releases have no levels
    )
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in said["unknown_because"][:10])
    again = str(said.get("again", ""))
    command = f"<pre>{escape(again)}</pre>" if again else ""
    return (
        f'<header class="word-{escape(word)}"><h1>{escape(word.upper())}</h1>'
        f"<p>{escape(run.name)}, seed {run.env['seed']}, commit {escape(str(run.env['commit']))}, "
        f"{run.env['settings']['nodes']} nodes, {run.env['settings']['seconds']:g} s of load</p>"
        f'<div class="numbers">{numbers}</div><ul>{reasons}</ul>{command}</header>'
    )


def _each_fault(run: Recorded) -> str:
    cells, kinds = fault_rows(run.faults, run.history, run.rows)
    chart = tables.table(HEAD, cells, kinds)
    opened = " open" if len(cells) <= ROWS_OPEN_MAX else ""
    return f"<details{opened}><summary>{len(cells)} faults</summary>{chart}</details>"


def _space_time(run: Recorded) -> str:
    chart = spacetime.diagram(run, 0.0, run.seconds)
    if not chart:
        return "<p>No node of this run wrote a trace.</p>"
    named = (
        ("role-leader", "leader"),
        ("role-follower", "follower"),
        ("role-candidate", "candidate"),
        ("end-vote", "vote, or its request"),
        ("end-led", "first word of a leader"),
        ("end-message", "other message (simulator)"),
        ("end-lost", "never arrived"),
        ("hit", "fault"),
    )
    return _zoomable(chart) + _key(named)


def _weathers(run: Recorded) -> str:
    """Table of the fault mixes: since when, the drawn values, and the kinds that each left out."""
    found: Mapping[str, Any] | Sequence[Mapping[str, Any]] = run.env.get("swarm") or ()
    rows = [found] if isinstance(found, Mapping) else found  # older runs had one for all their time
    return tables.table(
        ("since (s)", "gaps (s)", "aimed at the leader", "length", "without"),
        [
            (
                f"{row.get('since', 0.0):g}",
                f"{row['gap_min']:g} to {row['gap_max']:g}",
                f"{100 * row['leader_aim']:g} %",
                f"{row['length']:g}",
                ", ".join(kind for kind, weight in row["weights"].items() if not weight) or "none",
            )
            for row in rows
        ],
    )


def _zoomable(chart: str) -> str:
    buttons = "".join(
        f'<button type="button" data-zoom="{times}">{times}×</button>' for times in (1, 2, 5, 20)
    )
    return f'<div class="zoom">{buttons}</div><div class="scroll"><div>{chart}</div></div>'


OVERVIEW_KEY = (
    ("op-ok", "ok"),
    ("op-fail", "refused for certain"),
    ("op-info", "unknown outcome"),
    ("role-leader", "leader"),
    ("role-follower", "follower"),
    ("role-candidate", "candidate"),
    ("silence", "silence"),
    ("fault", "fault"),
)


def _key(named: Sequence[tuple[str, str]] = OVERVIEW_KEY) -> str:
    """Returns the legend: each tone with its meaning."""
    return (
        '<p class="key">'
        + "".join(
            f'<span><svg width="12" height="12"><rect width="12" height="12" class="{kind}"/></svg>'
            f"{said}</span>"
            for kind, said in named
        )
        + "</p>"
    )


def _files(run: Recorded) -> str:
    """Links into the folder in which the page lies."""
    names = "".join(f'<li><a href="{quote(n)}">{escape(n)}</a></li>' for n in run.files)
    return f"<ul>{names}</ul>"
