"""anomalies/*.txt: one text per anomaly, to read in a terminal or to paste into an issue.

001-lost-middle.txt     the sentence, the operations, faults and nodes around, each replica's log
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from chaos.report.anomalies import (
    SECONDS_AROUND,
    SECTIONS_MAX,
    Focus,
    faults_around,
    focus,
    logs_around,
)
from chaos.report.overview import tip
from chaos.report.recorded import Recorded

FOLDER = "anomalies"
NODE_SECONDS_AROUND = 1.5
NODE_LINES_MAX = 200


def write_texts(root: Path, run: Recorded) -> list[str]:
    """Write them anew; their names below `root`."""
    shutil.rmtree(root / FOLDER, ignore_errors=True)
    names = []
    for number, one in enumerate(run.verdict["anomalies"][:SECTIONS_MAX], 1):
        kind = re.sub(r"[^\w-]+", "_", str(one["name"]))
        name = f"{FOLDER}/{number:03}-{kind}.txt"
        (root / FOLDER).mkdir(exist_ok=True)
        (root / name).write_text(text_of(run, str(one["name"]), str(one["detail"])), "utf-8")
        names.append(name)
    return names


def text_of(run: Recorded, name: str, detail: str) -> str:
    """One anomaly."""
    about = focus(run, detail)
    parts = [f"{name}\n{detail}\n", f"again: {run.verdict.get('again', '')}\n"]
    if about.operations:
        parts.append(_block("operations", (tip(op) for op in about.operations)))
    if about.moment is not None:
        rows = faults_around(run, about.moment)
        head = f"faults within {SECONDS_AROUND:g} s of {about.moment:.3f} s"
        parts.append(_block(head, _columns(rows) or ["none"]))
        parts.append(_block("nodes, by their own traces", _nodes(run, about.moment)))
    parts.append(_logs(run, about))
    return "\n".join(part for part in parts if part)


def _nodes(run: Recorded, moment: float) -> list[str]:
    """Changes of roles, terms, votes and leaders near the moment; commits alone are left out."""
    found, before = [], dict[str, tuple[object, ...]]()
    for row in run.told:
        standing = (row["role"], row["term"], row["vote"], row["leader"])
        changed, before[row["node"]] = before.get(row["node"]) != standing, standing
        if changed and abs(float(row["time"]) - moment) <= NODE_SECONDS_AROUND:
            said = f"{row['role']} in term {row['term']}, vote {row['vote'] or '-'}"
            ends = f"committed {row['committed']}, last {row['last']}"
            leader = f"leader {row['leader'] or '-'}"
            found.append((f"{row['time']:.4f}", row["node"], f"{said}, {leader}, {ends}"))
    return _columns(found[:NODE_LINES_MAX]) or ["no change"]


def _logs(run: Recorded, about: Focus) -> str:
    found = logs_around(run, about)
    if found is None:
        return ""
    marks = {"here": ">", "differs": "*"}
    rows = [(marks.get(kind, ""), *row) for kind, row in zip(found.kinds, found.rows, strict=True)]
    return _block(found.said, _columns([("", found.place, *found.nodes), *rows]))


def _block(head: str, lines: Iterable[str]) -> str:
    return head + "\n" + "".join(f"  {line}\n" for line in lines)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their cells below each other."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
