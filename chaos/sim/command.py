"""`dledger sim`: run seeds, or replay one."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from chaos.sim.runner import Plan, Totals, run_plan
from chaos.sim.world import run_seed

_NODES = {"3": 3, "5": 5, "mixed": 0}


def _seed_range(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    first, dots, behind = value.partition("..")
    if not dots or not first.isdigit() or not behind.isdigit() or int(first) >= int(behind):
        raise click.BadParameter("write A..B with A below B; B is not included, as in 0..2000")
    return int(first), int(behind)


@click.command()
@click.option("--seeds", callback=_seed_range, help="Seeds A..B, without B.")
@click.option("--seed", type=int, help="One seed: replay it and print its trace hash.")
@click.option(
    "--nodes",
    type=click.Choice(list(_NODES)),
    default="mixed",
    show_default=True,
    help="Cluster size; mixed: every fourth seed 5, the others 3.",
)
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Virtual seconds.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option(
    "--results", type=click.Path(path_type=Path), help="Table to go on with (JSON lines)."
)
@click.option("-v", "--verbose", is_flag=True, help="With --seed: tell the story.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def sim(
    seeds: tuple[int, int] | None,
    seed: int | None,
    nodes: str,
    seconds: float,
    jobs: int,
    results: Path | None,
    verbose: bool,
    output: str,
) -> None:
    """Simulate clusters under faults: the shipping code, virtual time, one seed a run.

    Exit code 0: no violation; 1: at least one, with the line that replays it.
    """
    if (seeds is None) == (seed is None):
        raise click.UsageError("give either --seeds A..B or --seed N")
    if seed is not None:
        _replay(seed, _NODES[nodes], seconds, verbose=verbose, output=output)
        return
    assert seeds is not None
    plan = Plan(seeds[0], seeds[1], _NODES[nodes], seconds)
    totals = run_plan(plan, jobs=jobs, results=results, progress=_progress)
    if sys.stderr.isatty():
        click.echo(err=True)
    _print_totals(totals, output)
    sys.exit(1 if totals.violations else 0)


def _replay(seed: int, nodes: int, seconds: float, *, verbose: bool, output: str) -> None:
    plan = Plan(seed, seed + 1, nodes, seconds)
    result = run_seed(seed, plan.nodes_of(seed), seconds, story=verbose)
    if output == "json":
        found = asdict(result)
        found["violations"] = int(bool(result.violation))
        click.echo(json.dumps(found))
    else:
        word = f"VIOLATION {result.violation}: {result.detail}" if result.violation else "ok"
        click.echo(f"seed {seed}  nodes {result.nodes}  trace {result.trace_hash}  {word}")
        if result.violation:
            click.echo(f"again: {plan.again(seed)} -v")
    sys.exit(1 if result.violation else 0)


def _progress(totals: Totals) -> None:
    if sys.stderr.isatty():
        click.echo(
            f"\r{totals.seeds} seeds, {totals.violations} violations, "
            f"{totals.speedup:.0f}x real time",
            err=True,
            nl=False,
        )


def _print_totals(totals: Totals, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(totals.report()))
        return
    report = totals.report()
    click.echo(
        f"{totals.seeds} seeds, {totals.seconds / 3600:.1f} virtual hours, "
        f"{totals.speedup:.0f}x real time per core, {totals.checks} checks"
    )
    click.echo(
        f"{totals.operations} operations ({report['operations_per_second']}/s), {totals.acked} "
        f"acknowledged, a fault every {report['seconds_per_fault']} s"
    )
    for failed in totals.failed:
        click.echo(f"VIOLATION {failed['violation']}: {failed['detail']}")
        click.echo(f"  again: {failed['again']} -v")
    click.echo(
        f"violations {totals.violations}  lost {totals.lost}  doubled {totals.doubled}  "
        f"reordered {totals.reordered}"
    )
