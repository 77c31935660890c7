"""`dledger mutants-drawn`: how many small changes, drawn without regard to tests, are noticed?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chaos.mutants.sampled.draw import COUNT, SEED
from chaos.mutants.sampled.run import Drawing, run_all
from chaos.tools.evidence import evidence_file, where_by_default
from chaos.tools.exit_codes import JudgingCommand
from chaos.tools.numbers import JOBS
from chaos.tools.outputs import check_file

#: Of a hundred, so many must be noticed.
GOAL = 90
_FILE = "mutants-drawn.jsonl"


@click.command("mutants-drawn", cls=JudgingCommand)
@click.option("--jobs", type=JOBS, default=2, show_default=True, help="Processes.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="One line of JSON for each; a run goes on behind what it holds. "
    + where_by_default(_FILE),
)
def mutants_sampled(jobs: int, file: Path | None) -> None:
    """Change two hundred lines, one at a time; a test or one of 200 seeds must notice. Needs a
    checkout, and hours.

    Exit code 0: nine of ten were noticed; 1: fewer.
    """
    click.echo(f"{COUNT} changes, drawn with seed {SEED}")
    file = evidence_file(_FILE) if file is None else file
    check_file(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    fates = run_all(file, jobs, _show)
    alive = [fate for fate in fates if not fate.by]
    for fate in alive:
        click.echo(f"SURVIVED {fate.name}\n{fate.change}")
    killed = len(fates) - len(alive)
    click.echo(f"killed {killed}/{len(fates)}, goal {GOAL} %")
    sys.exit(0 if 100 * killed >= GOAL * len(fates) else 1)


def _show(fate: Drawing) -> None:
    click.echo(
        f"{'killed' if fate.by else 'SURVIVED':8} {fate.seconds:7.1f} s  {fate.name}  {fate.by}"
    )
