"""`dledger chaos replay` and `dledger chaos shrink`: a run again, whole or smaller."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from chaos.live.supervisor import Wanted, supervise
from chaos.mutants.table import find
from chaos.mutants.within import line_within, rule_taken_out, run_within
from chaos.replay import folder
from chaos.replay.other_arena import live_plan, simulated_plan
from chaos.replay.shrink import Shrunk
from chaos.replay.shrink import shrink as shrink_run
from chaos.sim.course import Begun
from chaos.sim.kinds.table import CATALOGUE
from chaos.sim.plan_options import SECONDS, config_option, profile_options, with_schedules
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.world import RunResult
from chaos.tools.numbers import DURATION
from chaos.tools.outputs import check_folder
from cluster.commands.output import report_option, to_json

INVALID, UNKNOWN = 1, 2

_run_folder = click.Path(path_type=Path, exists=True, file_okay=False)
SIMULATED, LIVE = "sim", "live"


@click.command()
@click.argument("target", type=_run_folder)
@click.option(
    "--arena", type=click.Choice([SIMULATED, LIVE]), help="Where; by default where it was run."
)
@click.option("--out", type=click.Path(path_type=Path), help="A new folder for the new run.")
@report_option
def replay(target: Path, arena: str | None, out: Path | None, output: str) -> None:
    """Run the faults of a run's folder again, simulated or on real processes.

    A simulated run must give the same trace, step for step. Exit code 0: valid, and the same; 1: a
    violation, and the same; 2: another trace, as other code gives one. Live: as `chaos run`.
    """
    check_folder(out)
    if (arena or _arena_of(target)) == LIVE:
        with _folder_of_a_run(target):
            planned = live_plan(target)
        again = f"dledger chaos replay {target} --arena {LIVE}"
        sys.exit(supervise(planned, Wanted(again, out, quiet=output == "json")))
    if _arena_of(target) == SIMULATED:
        with _folder_of_a_run(target):
            found = folder.load(target)
        _repeat(found, target, out, output)
    with _folder_of_a_run(target):
        plan = simulated_plan(target)
    _run_simulated(plan, out, output)


def _arena_of(target: Path) -> str:
    """Where the run of a folder was."""
    with _folder_of_a_run(target):
        return SIMULATED if folder.is_simulated(target) else LIVE


@contextmanager
def _folder_of_a_run(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{target} is no folder of such a run: {error}") from error


def _repeat(found: folder.Simulated, target: Path, out: Path | None, output: str) -> NoReturn:
    words = ["chaos", "replay", str(target), "-o", output]
    _in_its_code(found.mutant, words + (["--out", str(out)] if out is not None else []))
    result = _run(found.plan, out)
    same = result.trace_hash == found.trace_hash
    _print_run(result, output, recorded=found.trace_hash)
    if not same:
        sys.exit(UNKNOWN)
    sys.exit(INVALID if result.violation else 0)


def _run_simulated(plan: Plan, out: Path | None, output: str) -> NoReturn:
    """A live run's faults; there is no trace to compare with."""
    schedule = plan.course.schedule or ()
    if all(one.kind not in CATALOGUE for one in schedule):
        kinds = ", ".join(sorted({one.kind for one in schedule})) or "none was planned"
        raise click.UsageError(
            f"the simulator has none of the run's faults: {kinds}; use --arena live"
        )
    result = _run(plan, out)
    if output == "text":
        passed_over = {one.kind for one in schedule if one.kind not in CATALOGUE}
        for kind in sorted(passed_over):
            click.echo(f"skipped  {kind}: the simulator does not have it")
    _print_run(result, output)
    sys.exit(INVALID if result.violation else 0)


def _run(plan: Plan, out: Path | None) -> RunResult:
    if out is None:
        return plan.run(plan.first)
    return folder.record(out, plan, rule_taken_out())


def _print_run(result: RunResult, output: str, recorded: str = "") -> None:
    same = result.trace_hash == recorded
    if output == "json":
        found = {**asdict(result), "recorded": recorded, "same": same}
        click.echo(to_json({**found, "begun": [one._asdict() for one in result.begun]}))
        return
    for one in result.begun:
        click.echo(_line(one))
    word = "the same trace" if same else f"another trace than the recorded {recorded}"
    click.echo(
        f"seed {result.seed}  trace {result.trace_hash}  {word if recorded else ''}".rstrip()
    )
    if result.violation:
        click.echo(f"VIOLATION {result.violation}: {result.detail}")
    else:
        click.echo(f"ok   acknowledged {result.acked}   {len(result.begun)} faults")


@click.command()
@click.argument("target", type=_run_folder, required=False)
@click.option("--seed", type=int, help="A seed of `dledger sim` instead of a folder.")
@click.option("--nodes", type=click.Choice(["3", "5"]), help="As for the seed; 5 for every fourth.")
@config_option
@click.option("--seconds", type=DURATION, help="Virtual seconds.  [default: 60, or the file's]")
@profile_options
@click.option("--mutant", default="", help="With this rule taken out (dledger mutants --list).")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A new folder; runs/<time>-shrunk-<seed>."
)
@report_option
def shrink(
    target: Path | None,
    seed: int | None,
    nodes: str | None,
    config: Path | None,
    seconds: float | None,
    profile: Profile,
    mutant: str,
    out: Path | None,
    output: str,
) -> None:
    """Leave out faults of a failing simulated run until none can be spared.

    With a --mutant and no seed: the first seed that notices it. Faults of a live run's folder are
    simulated. Exit code 0: it still fails and is as small as it gets; 2: no violation is shown.
    """
    if target is not None and (seed is not None or mutant):
        raise click.UsageError(
            "a folder says its seed and its mutant itself; leave --seed and --mutant out"
        )
    check_folder(out)
    if target is not None:
        mutant, plan = _plan_of(target)
    elif seed is not None or mutant:
        plan = Plan(seed or 0, (seed or 0) + 1, int(nodes or 0), seconds or SECONDS, profile)
        if seed is None:
            plan = _seeds_of(mutant, plan)
        if config is not None:
            plan = with_schedules(plan, config, seconds)
    else:
        raise click.UsageError(
            "there is nothing to replay; name the folder of a run, a --seed or a --mutant"
        )
    _in_its_code(mutant, ["chaos", "shrink", *_words_of_shrink(target, plan, mutant, out, output)])
    smaller = next((one for one in (shrink_run(plan, s) for s in _range(plan)) if one), None)
    if smaller is None:
        click.echo("no violation: there is nothing to make smaller", err=True)
        sys.exit(UNKNOWN)
    root = out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-shrunk-{smaller.plan.first}"
    folder.record(root, smaller.plan, mutant)
    _print(smaller, root, mutant, output)


def _plan_of(target: Path) -> tuple[str, Plan]:
    """The mutant that a folder's run was of, and its plan; a live run's faults are simulated."""
    with _folder_of_a_run(target):
        if not folder.is_simulated(target):
            return "", simulated_plan(target)
        found = folder.load(target)
        return found.mutant, found.plan


def _range(plan: Plan) -> range:
    return range(plan.first, plan.behind)


def _seeds_of(name: str, plan: Plan) -> Plan:
    """The seeds that the simulator has to notice it, of its kind of run."""
    try:
        mutant = find(name)
    except KeyError:
        raise click.UsageError(
            f"there is no mutant {name}; dledger mutants --list names all"
        ) from None
    if not mutant.seeds:
        raise click.UsageError(f"{name} is found by a directed test, not by a seed; choose another")
    behind = mutant.first + mutant.seeds
    return replace(plan, first=mutant.first, behind=behind, profile=mutant.profile)


def _words_of_shrink(
    target: Path | None, plan: Plan, mutant: str, out: Path | None, output: str
) -> list[str]:
    """The same command for the process that takes the rule out."""
    words = ["-o", output, *(["--out", str(out)] if out is not None else [])]
    if target is not None:
        return [str(target), *words]
    words += ["--seconds", f"{plan.seconds:g}", "--mutant", mutant]
    if plan.behind == plan.first + 1:
        words += ["--seed", str(plan.first)]
    if plan.nodes:
        words += ["--nodes", str(plan.nodes)]
    if plan.schedules is not None:
        words += ["--config", plan.schedules.config]
    return [*words, *plan.profile.words()]


def _in_its_code(mutant: str, words: list[str]) -> None:
    """Go on in a process with that rule taken out, unless this is one; then this one ends."""
    if mutant == rule_taken_out():
        return
    done = run_within(mutant, words)
    click.echo(done.stdout, nl=False)
    sys.exit(done.returncode)


def _print(smaller: Shrunk, root: Path, mutant: str, output: str) -> None:
    plan, result = smaller.plan, smaller.result
    again = f"dledger chaos replay {root}"
    if plan.course.schedule is None or plan.schedules is not None:
        again = line_within(mutant, plan.again(plan.first)) + " -v"
    if output == "json":
        found: dict[str, Any] = {
            "seed": plan.first,
            "violation": result.violation,
            "faults_before": smaller.whole,
            "faults_left": smaller.left,
            "runs": smaller.runs,
            "kinds": [one.kind for one in result.begun],
            "folder": str(root),
            "again": again,
        }
        click.echo(to_json(found))
        return
    for one in result.begun:
        click.echo(_line(one))
    click.echo(f"VIOLATION {result.violation}: {result.detail}")
    click.echo(f"{smaller.whole} -> {smaller.left} faults, {smaller.runs} runs")
    click.echo(f"run folder  {root}\nagain       {again}")


def _line(one: Begun) -> str:
    lasts = f"for {one.seconds:.2f} s" if one.seconds else ""
    leads = "the leader" if one.led else ""
    return f"{one.at:8.3f}  {one.kind:18} n{one.machine}  {leads:10}  {lasts}".rstrip()
