"""`dledger chaos shrunk`: how small do failures of mutants become?"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from chaos.live.folder import commit
from chaos.mutants.run import run_child
from chaos.mutants.table import MUTANTS
from chaos.mutants.within import line_within
from chaos.tools.evidence import evidence_option, write_evidence
from chaos.tools.numbers import COUNT
from chaos.tools.outputs import check_file
from cluster.commands.output import report_option, to_json

#: The bar of docs/spec/chaos.md 6.
MEDIAN_MAX = 8
#: A mutant whose failures need longer hangs; seconds.
CHILD_SECONDS_MAX = 300.0

Row = dict[str, Any]


def shrink_next(name: str, first: int) -> Row | None:
    """The first failing seed of a mutant from `first` on, made smaller; None when none is left.

    Raises RuntimeError when its child breaks, subprocess.TimeoutExpired when it hangs.
    """
    command = [sys.executable, "-m", "chaos.replay.child", name, str(first)]
    done = run_child(command, timeout=CHILD_SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(f"failures of {name} could not be made smaller:\n{done.stderr[-2000:]}")
    row: Row | None = json.loads(done.stdout)
    return row


def shrink_mutants(names: Sequence[str], failures: int, rows: Sequence[Row]) -> Iterator[Row]:
    """Rows that are missing: up to `failures` of each mutant."""
    for name in names:
        seeds = [row["seed"] for row in rows if row["mutant"] == name]
        while len(seeds) < failures:
            row = shrink_next(name, max(seeds, default=-1) + 1)
            if row is None:
                break
            seeds.append(row["seed"])
            yield row


def read_rows(path: Path | None) -> list[Row]:
    """Rows of earlier runs; [] without a file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def median_left(rows: Sequence[Row]) -> float:
    """Faults left, over all rows; 0 without rows."""
    return statistics.median(row["left"] for row in rows) if rows else 0.0


def hard_of(rows: Sequence[Row]) -> list[Row]:
    """Failures that need a fault at all: the load alone does not show them."""
    return [row for row in rows if row["left"]]


def markdown(rows: Sequence[Row], of_commit: str) -> str:
    """Returns the page; `of_commit`: the commit of the seeds, for rows without one."""
    before = statistics.median(row["before"] for row in rows)
    hard = hard_of(rows)
    commits = dict.fromkeys(row.get("commit") or of_commit or "unknown" for row in rows)
    lines = [
        "# Failures made smaller",
        "",
        "Each rule that the simulator watches is taken out, and the first seeds that notice it",
        "are shrunk; `dledger chaos shrunk` made this page. *Before*: faults up to the violation;",
        "*left*: faults of which none can be spared, 0 when the load alone shows it. Seeds are",
        f"those of commit {' and '.join(commits)}; other code draws other runs.",
        "",
        f"**{len(rows)} failures: median {median_left(rows):g} faults left (bar {MEDIAN_MAX}), "
        f"{before:g} before, at most {max(row['left'] for row in rows)} left.** Of the "
        f"{len(hard)} that need a fault at all: median {median_left(hard):g} (bar {MEDIAN_MAX}).",
        "",
        "| rule taken out | violation | before | left | kinds | again |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['mutant']} | {row['violation']} | {row['before']} | {row['left']} "
        f"| {', '.join(row['kinds']) or '-'} | `{line_within(row['mutant'], row['again'])}` |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--failures", type=COUNT, default=3, show_default=True, help="Seeds per mutant.")
@click.option("--only", help="One mutant, by name.")
@evidence_option("--write", "shrunk.md", "Write the table into a Markdown file.")
@evidence_option("--resume", "shrunk.jsonl", "Keep the rows (JSON lines) and go on behind them.")
@report_option
def shrunk(
    failures: int, only: str | None, write: Path | None, resume: Path | None, output: str
) -> None:
    """Shrink failures of every mutant that seeds notice; needs a checkout.

    Exit code 0: the median of faults left is at most 8, also over those failures alone that need a
    fault; 1: it is more.
    """
    names = [mutant.name for mutant in MUTANTS if mutant.seeds and only in (None, mutant.name)]
    if not names:
        raise click.UsageError(f"no seed notices a mutant {only}; dledger mutants --list names all")
    check_file(write)
    check_file(resume)
    rows = read_rows(resume)
    for found in shrink_mutants(names, failures, tuple(rows)):
        row = {**found, "commit": commit()}
        rows.append(row)
        if resume is not None:
            resume.parent.mkdir(parents=True, exist_ok=True)
            with resume.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if output == "text":
            left = f"{row['before']:4} -> {row['left']:<4}"
            click.echo(f"{left} {row['mutant']:42} seed {row['seed']}")
    hard = hard_of(rows)
    medians = median_left(rows), median_left(hard)
    if output == "json":
        said: Row = {"failures": len(rows), "need_a_fault": len(hard)}
        said |= {"median_left": medians[0], "median_left_of_those": medians[1], "rows": rows}
        click.echo(to_json(said))
    else:
        click.echo(
            f"{len(rows)} failures, median {medians[0]:g} faults left; "
            f"{len(hard)} need a fault, median {medians[1]:g} of those"
        )
    if write is not None:
        write_evidence(write, markdown(rows, commit()))
    sys.exit(0 if max(medians) <= MEDIAN_MAX else 1)
