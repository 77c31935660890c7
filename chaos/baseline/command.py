"""`dledger chaos baseline`: the same courses against dledger and against pysyncobj, side by side.

    runs/<time>-baseline-<seed>/baseline.md, baseline.json      the table
    …/<course>/{ours,pysyncobj}/history.jsonl, logs.json        what clients saw, what replicas hold

Exit codes: 0 when dledger came through every course and at least one known fault of pysyncobj was
found; 1 when dledger did not; 2 when nothing was found in pysyncobj: then the suite is broken, or
nothing could be run here.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from chaos.baseline import ours
from chaos.baseline.courses import COURSES
from chaos.baseline.run import Result, run_course
from chaos.baseline.table import Row, code_of, to_fields, to_markdown
from chaos.live import interrupted
from chaos.tools.outputs import check_folder
from cluster.commands.output import report_option, to_json


@click.command("baseline")
@click.option("--seed", type=int, help="Repeat the same courses.")
@click.option("--courses", default=",".join(COURSES), show_default=True, help="Joined by commas.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A new folder; runs/<time>-baseline-<seed>."
)
@report_option
def baseline(seed: int | None, courses: str, out: Path | None, output: str) -> None:
    """The same faults against dledger and pysyncobj, which has known faults that must be found."""
    names = list(dict.fromkeys(name.strip() for name in courses.split(",")))
    if unknown := sorted(set(names) - set(COURSES)):
        raise click.UsageError(f"there is no course {unknown[0]}; there are {', '.join(COURSES)}")
    seed = random.randrange(1_000_000) if seed is None else seed
    root = out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-baseline-{seed}"
    check_folder(root)
    rows = [_run(name, seed, root / name, quiet=output == "json") for name in names]
    again = f"dledger chaos baseline --seed {seed} --courses {','.join(names)}"
    said = _save(root, rows, seed, again)
    if output == "json":
        click.echo(to_json(said))
    else:
        click.echo(to_markdown(rows, version("pysyncobj")))
        click.echo(f"run folder  {root}\nagain       {again}")
    sys.exit(said["exit_code"])


def _run(course: str, seed: int, root: Path, *, quiet: bool) -> Row:
    if not quiet:
        click.echo(f"{course} …", err=True)
    theirs = interrupted.run(run_course(course, seed, root / "pysyncobj"))
    _keep(root / "pysyncobj", theirs)
    if reason := ours.skipped(course):
        return Row(course, None, reason, theirs)
    (root / "ours").mkdir(parents=True)
    own = interrupted.run(ours.run_ours(course, seed, root / "ours"))
    _keep(root / "ours", own)
    return Row(course, own, "", theirs)


def _keep(root: Path, result: Result) -> None:
    with (root / "history.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(op.to_json() + "\n" for op in result.history)
    (root / "logs.json").write_text(json.dumps(dict(result.logs)) + "\n", encoding="utf-8")


def _save(root: Path, rows: Sequence[Row], seed: int, again: str) -> dict[str, Any]:
    said = {
        "seed": seed,
        "pysyncobj": version("pysyncobj"),
        "courses": [to_fields(row) for row in rows],
        "exit_code": code_of(rows),
        "again": again,
        "folder": str(root),
    }
    (root / "baseline.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    (root / "baseline.md").write_text(
        to_markdown(rows, version("pysyncobj")) + f"\nAgain: `{again}`\n", encoding="utf-8"
    )
    return said
