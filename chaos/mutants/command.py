"""`dledger mutants`: is every safety rule watched by something?"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from chaos.mutants.control import Control, run_control, wanted_by
from chaos.mutants.mutant import Mutant
from chaos.mutants.page import markdown
from chaos.mutants.run import Fate, run_all
from chaos.mutants.spec_rows import NUMBERS
from chaos.mutants.table import MUTANTS
from chaos.tools.evidence import evidence_option, write_evidence
from chaos.tools.exit_codes import JudgingCommand
from chaos.tools.numbers import JOBS
from chaos.tools.outputs import check_file
from cluster.commands.output import report_option


@click.command(cls=JudgingCommand)
@click.option("--only", help="One mutant, by name.")
@click.option(
    "--row", type=click.Choice(NUMBERS), help="Those of one row of docs/spec/chaos.md 5.2."
)
@click.option("--jobs", type=JOBS, default=2, show_default=True, help="Processes.")
@click.option("--list", "listing", is_flag=True, help="Print the table and run nothing.")
@evidence_option("--write", "mutants.md", "Write the fates into a Markdown file.")
@report_option
def mutants(
    only: str | None, row: str | None, jobs: int, listing: bool, write: Path | None, output: str
) -> None:
    """Take each safety rule out of the code; its seeds and its tests must notice. Needs a checkout.

    Then the same seeds and tests run with every rule in its place, and must be clean.

    Exit code 0: all killed or argued, and the control is clean; 1: a survivor, one that could not
    be judged, or a red control.
    """
    chosen = [mutant for mutant in MUTANTS if only in (None, mutant.name) and _is_of(mutant, row)]
    if not chosen:
        of_row = f" of row {row}" if only and row and any(m.name == only for m in MUTANTS) else ""
        raise click.UsageError(f"there is no mutant {only}{of_row}; --list names them")
    if listing:
        for mutant in chosen:
            rows = f"  row {', '.join(mutant.rows)}" if mutant.rows else ""
            click.echo(f"{mutant.name:44}  {', '.join(mutant.rules)}{rows}")
        return
    check_file(write)
    fates = run_all(chosen, jobs, _show_fate if output == "text" else lambda fate: None)
    control = run_control(wanted_by(chosen, fates), jobs)
    if output == "json":
        click.echo(json.dumps(_report(chosen, fates, control)))
    else:
        _show_end(chosen, fates, control)
    if write is not None:
        write_evidence(write, markdown(MUTANTS, fates, control))
    alive = any(not fate.killed for fate in fates)
    sys.exit(1 if alive or not control.clean else 0)


def _is_of(mutant: Mutant, row: str | None) -> bool:
    return row is None or row in mutant.rows


def _report(chosen: Sequence[Mutant], fates: Sequence[Fate], control: Control) -> dict[str, object]:
    alive = [fate for fate in fates if not fate.killed]
    return {
        "killed": sum(fate.killed for fate in fates),
        "total": len(chosen),
        "argued": sum(bool(mutant.argued) for mutant in chosen),
        "survivors": [fate.name for fate in alive if not fate.broke],
        "not_judged": [fate.name for fate in alive if fate.broke],
        "control": asdict(control),
        "mutants": [{**asdict(fate), "by": fate.by} for fate in fates],
    }


def _show_end(chosen: Sequence[Mutant], fates: Sequence[Fate], control: Control) -> None:
    argued = [mutant for mutant in chosen if mutant.argued]
    alive = [fate for fate in fates if not fate.killed]
    for mutant in argued:
        click.echo(f"argued    {mutant.name}: {mutant.argued}")
    for fate in alive:
        click.echo(f"{_word(fate)} {fate.name}: {fate.broke or _unnoticed(fate)}")
    verdict = "clean" if control.clean else f"RED: {', '.join(control.red)}"
    click.echo(
        f"control   {control.seconds:6.1f} s  {control.seeds} seeds and {control.tests} tests "
        f"with every rule in its place: {verdict}"
    )
    by_seeds = sum(fate.seed >= 0 for fate in fates)
    # The last line names them: it is what a summary of many commands repeats.
    names = "".join(f"  {_word(fate)} {fate.name}" for fate in alive)
    names += "".join(f"  at try {fate.tries}: {fate.name}" for fate in fates if _late(fate))
    names += "" if control.clean else "  CONTROL RED"
    killed = f"killed {len(fates) - len(alive)}/{len(fates)}"
    click.echo(f"{killed}  by seeds {by_seeds}  argued {len(argued)}{names}")


def _unnoticed(fate: Fate) -> str:
    where = f" by {', '.join(fate.missed)}" if fate.by else ""
    return f"nothing noticed{where}"


def _show_fate(fate: Fate) -> None:
    late = f" (try {fate.tries})" if _late(fate) else ""
    click.echo(f"{_word(fate):10} {fate.seconds:6.1f} s  {fate.name:44}  {fate.by}{late}")


def _late(fate: Fate) -> bool:
    """Whether its killer missed it before: such a test is to be made stricter."""
    return fate.killed and fate.tries > 1


def _word(fate: Fate) -> str:
    if fate.killed:
        return "killed"
    return "NOT JUDGED" if fate.broke else "SURVIVED"
