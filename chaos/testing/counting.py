"""Many seeds of the ready objects, and a file that adds up, so that a run that was stopped goes on.

    {"code": "3f…", "object": "kv", "first": 100, "behind": 150, "seeds": 50, "violations": [], …}

A line is a whole chunk. It counts while `code` is that of the modules which made it: the objects,
the machine, the log below them and the simulator.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from chaos.counts.code_key import imported_by, tree_key
from chaos.counts.ledger import Row, add_line, whole_lines
from chaos.testing.objects import ObjectPlan

CHUNK = 50
_ROOTS = ("chaos.testing", "dledger.machine", "dledger.objects")
#: Of reports, in this order in the table.
_COUNTS = ("answered", "reads", "shared", "cut", "restored", "overtaken", "waited", "recalled")
_NAMES = (
    "commands answered",
    "reads",
    "shared entries",
    "of them cut",
    "states taken",
    "overtaken",
    "turns waited for",
    "results recalled",
)
_SUMS = ("seeds", *_COUNTS, "faults", "cpu_seconds")


def code_of_objects() -> str:
    """12 hex digits for the code that a seed of an object runs."""
    return tree_key(imported_by(_ROOTS))[:12]


def count(name: str, seeds: range, file: Path) -> Iterator[Row]:
    """Run the chunks that the file does not hold yet for this code; each row when it is in it."""
    code = code_of_objects()
    done = {(row["object"], row["first"], row["behind"]) for row in rows_of(file, code)}
    first = seeds.start
    while first < seeds.stop:
        behind = min(first // CHUNK * CHUNK + CHUNK, seeds.stop)
        if (name, first, behind) not in done:
            row = {"code": code, **_run(ObjectPlan(name, first, behind))}
            add_line(file, row)
            yield row
        first = behind


def _run(plan: ObjectPlan) -> Row:
    begun = time.process_time()
    row: Row = {"object": plan.name, "first": plan.first, "behind": plan.behind}
    row |= {"seeds": 0, **dict.fromkeys(_COUNTS, 0), "faults": 0, "violations": []}
    for seed in range(plan.first, plan.behind):
        outcome = plan.run(seed)
        row["seeds"] += 1
        if outcome.report is None:
            row["violations"].append(f"{plan.again(seed)}: {outcome.violation}: {outcome.detail}")
            continue
        for field in _COUNTS:
            row[field] += getattr(outcome.report, field)
        row["faults"] += sum(outcome.report.faults.values())
    row["cpu_seconds"] = round(time.process_time() - begun, 2)
    return row


def rows_of(file: Path, code: str) -> list[Row]:
    """The whole lines of that code; [] when there is no file yet.

    The chunk of a line that a kill cut short is run again.
    """
    return [row for row in whole_lines(file) if row.get("code") == code]


def _apart(rows: list[Row]) -> list[Row]:
    """Rows of one object without those that repeat seeds of another."""
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: (row["first"], -row["behind"])):
        if not kept or row["first"] >= kept[-1]["behind"]:
            kept.append(row)
    return kept


def table_of(file: Path, code: str) -> str:
    """One line for each object, in Markdown."""
    named = "object", "seeds", "violations", *_NAMES, "faults", "CPU s a seed"
    lines = [f"| {' | '.join(named)} |", "|---" * len(named) + "|"]
    rows = rows_of(file, code)
    for name in dict.fromkeys(row["object"] for row in rows):
        own = _apart([row for row in rows if row["object"] == name])
        sums = {field: sum(row[field] for row in own) for field in _SUMS}
        wrong = sum(len(row["violations"]) for row in own)
        lines.append(
            f"| {name} | {sums['seeds']} | {wrong} | "
            + " | ".join(str(sums[field]) for field in _COUNTS)
            + f" | {sums['faults']} | {sums['cpu_seconds'] / max(1, sums['seeds']):.3f} |"
        )
    return "\n".join(lines)
