"""`dledger sim`: run seeds, or replay one."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from chaos.counts.ledger import COUNTS_FILE
from chaos.mutants.within import line_within, rule_taken_out
from chaos.replay import folder
from chaos.sim.course import Course
from chaos.sim.plan_options import SECONDS, config_option, profile_options, with_schedules
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan, Totals, run_plan
from chaos.tools.evidence import evidence_option
from chaos.tools.exit_codes import JudgingCommand
from chaos.tools.numbers import DURATION, JOBS, is_number, seed_range
from chaos.tools.outputs import check_file, check_folder
from chaos.tools.progress import progress_bar
from cluster.commands.output import report_option

_NODES = {"3": 3, "5": 5, "mixed": 0}


def _seed_range(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    try:
        seeds = seed_range(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return seeds.start, seeds.stop


def _numbers(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[int] | None:
    if value is None:
        return None
    words = [] if value == "none" else value.split(",")
    if not all(is_number(word) for word in words):
        raise click.BadParameter("write numbers of faults, as in 3,7, or none")
    return frozenset(int(word) for word in words)


@click.command(cls=JudgingCommand)
@click.option("--seeds", callback=_seed_range, help="Seeds A..B, without B.")
@click.option("--seed", type=int, help="One seed: replay it and print its trace hash.")
@click.option(
    "--nodes",
    type=click.Choice(list(_NODES)),
    default="mixed",
    show_default=True,
    help="Cluster size; mixed: every fourth seed 5, the others 3.",
)
@profile_options
@click.option(
    "--keep", callback=_numbers, help="With --seed: only faults of these numbers, as in 3,7; none."
)
@click.option("--salt", type=int, default=0, help="With --keep: another run of the same faults.")
@config_option
@click.option("--calm", is_flag=True, help="No fault at all, and a network that loses nothing.")
@click.option("--seconds", type=DURATION, help="Virtual seconds.  [default: 60, or the file's]")
@click.option("--jobs", type=JOBS, default=1, show_default=True, help="Processes.")
@evidence_option(
    "--counts", COUNTS_FILE, "Count the seeds in a file (JSON lines), from where it stopped."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="With --seed: a new folder for the run."
)
@click.option("-v", "--verbose", is_flag=True, help="With --seed: tell the story.")
@report_option
def sim(
    seeds: tuple[int, int] | None,
    seed: int | None,
    nodes: str,
    profile: Profile,
    keep: frozenset[int] | None,
    salt: int,
    config: Path | None,
    calm: bool,
    seconds: float | None,
    jobs: int,
    counts: Path | None,
    out: Path | None,
    verbose: bool,
    output: str,
) -> None:
    """Simulate clusters under faults: the shipping code, virtual time, one seed a run.

    Exit code 0: no violation; 1: at least one, with the line that replays it.
    """
    if (seeds is None) == (seed is None):
        raise click.UsageError(
            "no seed is named, or two ways are; give either --seeds A..B or --seed N"
        )
    if seed is None and (keep is not None or out is not None):
        raise click.UsageError("--keep and --out are for one run; give --seed N with them")
    check_folder(out)
    check_file(counts)
    course = Course(schedule=() if calm else None, kept=keep, salt=salt, calm=calm)
    first, behind = seeds or (seed or 0, (seed or 0) + 1)
    plan = Plan(
        first, behind, _NODES[nodes], SECONDS if seconds is None else seconds, profile, course
    )
    if config is not None:
        plan = with_schedules(plan, config, seconds)
    if seed is not None:
        _replay(plan, out, verbose=verbose, output=output)
        return
    if counts is not None and rule_taken_out():
        raise click.UsageError(
            "with a rule taken out nothing is counted, it is other code; leave --counts out"
        )
    with progress_bar(behind - first) as advance:
        totals = run_plan(
            plan, jobs=jobs, ledger=counts, progress=lambda now: advance(now.seeds, _so_far(now))
        )
    _print_totals(totals, output)
    sys.exit(1 if totals.violations else 0)


def _replay(plan: Plan, out: Path | None, *, verbose: bool, output: str) -> None:
    seed = plan.first
    if out is not None:
        result = folder.record(out, plan, rule_taken_out(), story=verbose)
    else:
        result = plan.run(seed, story=verbose)
    if output == "json":
        found = asdict(result)
        found["violations"] = int(bool(result.violation))
        click.echo(json.dumps(found))
    else:
        word = f"VIOLATION {result.violation}: {result.detail}" if result.violation else "ok"
        click.echo(f"seed {seed}  nodes {result.nodes}  trace {result.trace_hash}  {word}")
        if result.violation:
            mutant, line = rule_taken_out(), plan.again(seed)
            smaller = line.replace("dledger sim", "dledger chaos shrink")
            click.echo(f"again: {line_within(mutant, line)} -v")
            click.echo(f"smaller: {smaller}{f' --mutant {mutant}' if mutant else ''}")
    sys.exit(1 if result.violation else 0)


def _so_far(totals: Totals) -> str:
    """Beside the bar."""
    return f"{totals.seeds} seeds, {totals.violations} violations, {totals.speedup:.0f}x real time"


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
