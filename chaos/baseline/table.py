"""The side-by-side table of courses, for people (Markdown) and for programs (fields)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chaos.baseline.run import Result
from chaos.checkers.verdict import Word

EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One course; `ours` is None when it could not be run here, and `skipped` says why."""

    course: str
    ours: Result | None
    skipped: str
    theirs: Result


def code_of(rows: Sequence[Row]) -> int:
    """Returns 0 if dledger was valid and a fault of pysyncobj was found, 1 if dledger was invalid,
    2 if the run proved neither."""
    own = [row.ours.verdict.word for row in rows if row.ours is not None]
    if Word.INVALID in own:
        return 1
    found = any(row.theirs.verdict.word is Word.INVALID for row in rows)
    return 0 if found and own and all(word is Word.VALID for word in own) else 2


def names_of(result: Result) -> dict[str, int]:
    """Anomaly names and how often each."""
    return dict(sorted(Counter(one.name for one in result.verdict.anomalies).items()))


def to_fields(row: Row) -> dict[str, Any]:
    """JSON values only."""
    own = _fields(row.ours) if row.ours is not None else {"skipped": row.skipped}
    return {"course": row.course, "ours": own, "pysyncobj": _fields(row.theirs)}


def _fields(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    return {
        "verdict": verdict.word.name.lower(),
        **verdict.counts(),
        "anomalies": names_of(result),
        "examples": [one.detail for one in verdict.anomalies[:EXAMPLES_MAX]],
        "seen": result.seen,
        "seconds": round(result.seconds, 1),
    }


def to_markdown(rows: Sequence[Row], their_version: str) -> str:
    """Two lines a course: ours, theirs."""
    lines = [
        "| course | log | verdict | acknowledged | lost | doubled | reordered | found |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        if row.ours is None:
            lines.append(f"| {row.course} | dledger | skipped: {row.skipped} | | | | | |")
        else:
            lines.append(_line(row.course, "dledger", row.ours))
        lines.append(_line(row.course, f"pysyncobj {their_version}", row.theirs))
    return "\n".join(lines)


def _line(course: str, log: str, result: Result) -> str:
    verdict = result.verdict
    word = verdict.word.name if verdict.word is not Word.INVALID else "**INVALID**"
    found = ", ".join(names_of(result)) or ("" if result.seen else "the fault had no effect")
    counts = f"{verdict.acked} | {verdict.lost} | {verdict.doubled} | {verdict.reordered}"
    return f"| {course} | {log} | {word} | {counts} | {found} |"
