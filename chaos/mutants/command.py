"""`dledger mutants`: is every safety rule watched by something?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from chaos.mutants.run import Fate, run_all
from chaos.mutants.table import MUTANTS
from cluster.commands.output import report_option


@click.command()
@click.option("--only", help="One mutant, by name.")
@click.option("--jobs", type=int, default=2, show_default=True, help="Processes.")
@click.option("--list", "listing", is_flag=True, help="Print the table and run nothing.")
@report_option
def mutants(only: str | None, jobs: int, listing: bool, output: str) -> None:
    """Take each safety rule out of the code; a seed or a test must notice. Needs a checkout.

    Exit code 0: all killed or argued; 1: a survivor, or one that could not be judged.
    """
    chosen = [mutant for mutant in MUTANTS if only in (None, mutant.name)]
    if not chosen:
        raise click.UsageError(f"there is no mutant {only}; --list names them")
    if listing:
        for mutant in chosen:
            click.echo(f"{mutant.name:44}  {', '.join(mutant.rules)}")
        return
    fates = run_all(chosen, jobs, _show_fate if output == "text" else lambda fate: None)
    argued = [mutant for mutant in chosen if mutant.argued]
    killed = sum(fate.killed for fate in fates)
    alive = [fate for fate in fates if not fate.killed]
    if output == "json":
        found = {
            "killed": killed,
            "total": len(chosen),
            "argued": len(argued),
            "survivors": [fate.name for fate in alive if not fate.broke],
            "not_judged": [fate.name for fate in alive if fate.broke],
            "mutants": [asdict(fate) for fate in fates],
        }
        click.echo(json.dumps(found))
    else:
        for mutant in argued:
            click.echo(f"argued    {mutant.name}: {mutant.argued}")
        for fate in alive:
            click.echo(f"{_word(fate)} {fate.name}: {fate.broke or 'nothing noticed'}")
        # The last line names them: it is what a summary of many commands repeats.
        names = "".join(f"  {_word(fate)} {fate.name}" for fate in alive)
        names += "".join(f"  at try {fate.tries}: {fate.name}" for fate in fates if _late(fate))
        click.echo(f"killed {killed}  argued {len(argued)}  total {len(chosen)}{names}")
    sys.exit(1 if alive else 0)


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
