"""`dledger chaos …`: live runs, the catalogue of faults, judging a history again.

Exit codes (chaos.md 7): 0 valid, 1 invalid, 2 unknown, 254 wrong usage, 255 the harness failed.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chaos.baseline.command import baseline
from chaos.controls.command import controls
from chaos.counts.command import counts
from chaos.drivers.probe import availability, in_namespaces
from chaos.faults import CHOREOGRAPHIES, KINDS, Network, kind_of
from chaos.judges.command import porcupine
from chaos.live.attended import ANOMALIES_SHOWN_MAX, HARNESS, Wanted, attend
from chaos.live.judgement import judge_run
from chaos.live.run import make_plan
from chaos.live.settings import RunSettings, RunSettingsError, load
from chaos.mutants.command import mutants
from chaos.replay.command import replay, shrink
from chaos.replay.table import shrunk
from chaos.report.again import read_evidence
from chaos.report.command import report
from chaos.report.serve import serve
from chaos.sim.command import sim
from chaos.sim.rejoins import rejoins
from cluster.commands.output import report_option, to_json
from cluster.commands.registry import WholeHelpGroup

USAGE = 254


class _Group(WholeHelpGroup):
    """Usage errors end with 254, what fails with 255: 1 and 2 are verdicts and nothing else."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            error.show()
            sys.exit(USAGE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.show()
            sys.exit(USAGE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted, which says nothing about the cluster", err=True)
            sys.exit(HARNESS)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            traceback.print_exc()
            click.echo(f"failed, which says nothing about the cluster: {error}", err=True)
            sys.exit(HARNESS)


@click.group(cls=_Group)
def chaos() -> None:
    """Break a running cluster on purpose and judge what was lost."""


for command in (
    baseline,
    controls,
    counts,
    mutants,
    porcupine,
    rejoins,
    replay,
    report,
    serve,
    shrink,
    shrunk,
    sim,
):
    chaos.add_command(command)


@chaos.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Settings of the run, as in conf/chaos-smoke.toml.",
)
@click.option("--seconds", type=float, help="Length of the load instead of the file's.")
@click.option("--seed", type=int, help="Repeat a schedule: same faults, same wishes.")
@click.option("--nodes", type=click.IntRange(1, 9), help="Size of the cluster.")
@click.option(
    "--faults", help="Names joined by commas instead of the file's, all, or choreographies."
)
@click.option(
    "--network",
    type=click.Choice([one.value for one in Network]),
    help="What nodes dial each other through: our proxies, or (root) namespaces and nftables.",
)
@click.option("--each", is_flag=True, help="Every kind once, one after the other.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder; runs/<time>-chaos-<seed>.")
@click.option("--keep", is_flag=True, help="Keep the replicas' files of a valid run, too.")
@click.option(
    "--counts", type=click.Path(path_type=Path), help="Count the run in this file (JSON lines)."
)
@report_option
def run(
    config: Path | None,
    seconds: float | None,
    seed: int | None,
    nodes: int | None,
    faults: str | None,
    network: str | None,
    each: bool,
    out: Path | None,
    keep: bool,
    counts: Path | None,
    output: str,
) -> None:
    """Real processes under a workload, with faults; one word at the end."""
    settings = _settings(config, seconds, nodes, faults)
    if network is not None:
        settings = replace(settings, network=Network(network))
    seed = random.randrange(1_000_000) if seed is None else seed
    try:
        planned = make_plan(settings, seed, each=each)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    again = _again(config, seed, settings, faults) + (" --each" if each else "")
    profile = config.stem if config is not None else "default"
    sys.exit(attend(planned, Wanted(again, out, keep, output == "json", counts, profile)))


def _settings(
    config: Path | None, seconds: float | None, nodes: int | None, faults: str | None
) -> RunSettings:
    try:
        settings = load(config) if config else RunSettings()
        changes: dict[str, Any] = {}
        if seconds is not None:
            changes["seconds"] = seconds
        if nodes is not None:
            changes["nodes"] = nodes
        if faults is not None:
            names = [kind.name for kind in KINDS if kind.safe]
            if faults == "choreographies":
                names = [kind.name for kind in CHOREOGRAPHIES]
            elif faults != "all":
                names = [kind_of(name.strip()).name for name in faults.split(",")]
            changes["kinds"] = tuple(names)
        return replace(settings, **changes)
    except (RunSettingsError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def _again(config: Path | None, seed: int, settings: RunSettings, faults: str | None) -> str:
    words = ["dledger chaos run", f"--seed {seed}", f"--seconds {settings.seconds:g}"]
    if config is not None:
        words.insert(1, f"--config {config}")
    if settings.nodes != 3:
        words.append(f"--nodes {settings.nodes}")
    if faults is not None:
        words.append(f"--faults {faults}")
    if settings.network is not Network.PROXIES:
        words.append(f"--network {settings.network.value}")
    return " ".join(words)


@chaos.command("faults")
@report_option
def show_faults(output: str) -> None:
    """Every kind of fault: does it work on this machine, and why not."""
    found = availability()
    if output == "json":
        rows = [
            {"number": k.number, "name": k.name, "text": k.text, "driver": k.driver.value}
            | {"simulated": k.simulated, "available": not found[k.name], "reason": found[k.name]}
            for k in KINDS
        ]
        click.echo(
            to_json({"faults": rows, "available": _count(found), "namespaces": in_namespaces()})
        )
        return
    for kind in KINDS:
        sim = "sim" if kind.simulated else ""
        reason = f"skipped: {found[kind.name]}" if found[kind.name] else "live"
        click.echo(f"{kind.number:3}  {kind.name:14} {sim:4} {kind.text:44} {reason}")
    click.echo(f"{_count(found)} of {len(KINDS)} kinds work live on this machine")
    below = in_namespaces()
    reason = next((f", skipped: {why}" for why in below.values() if why), "")
    click.echo(
        f"below TCP, with --network namespaces: {_count(below)} of {len(below)} kinds{reason} "
        f"({', '.join(below)})"
    )


def _count(found: Mapping[str, str]) -> int:
    return sum(not reason for reason in found.values())


@chaos.command()
@click.argument("target", type=click.Path(path_type=Path, exists=True))
@report_option
def check(target: Path, output: str) -> None:
    """Judge a run's folder again: history, logs, elections, availability, faults."""
    try:
        evidence, limits = read_evidence(target if target.is_dir() else target.parent)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{target} is no folder of a run: {error}") from error
    judgement = judge_run(evidence, limits)
    said = judgement.summary
    if output == "json":
        click.echo(to_json(said))
    else:
        for anomaly in said["anomalies"][:ANOMALIES_SHOWN_MAX]:
            click.echo(f"{anomaly['name']}: {anomaly['detail']}")
        for reason in said["unknown_because"][:ANOMALIES_SHOWN_MAX]:
            click.echo(f"unknown: {reason}")
        click.echo("  ".join(f"{name} {said[name]}" for name in list(said)[:7]))
    sys.exit(judgement.word.value)
