"""`dledger chaos …`: live runs, the catalogue of faults, judging a history again.

Exit codes (docs/spec/chaos.md 7): 0 valid, 1 invalid, 2 unknown, 254 wrong usage, 255 the harness
failed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chaos.baseline.command import baseline
from chaos.controls.command import controls
from chaos.counts.command import counts
from chaos.counts.ledger import COUNTS_FILE
from chaos.drivers import toxics
from chaos.drivers.probe import availability, in_namespaces
from chaos.evidence import evidence_option
from chaos.exit_codes import JudgingGroup
from chaos.faults import KINDS, Network, kinds_named
from chaos.judges.command import porcupine
from chaos.live.run import make_plan
from chaos.live.settings import RunSettings, RunSettingsError, load
from chaos.live.supervisor import Wanted, supervise
from chaos.live.toxic_links import which_server
from chaos.mutants.command import mutants
from chaos.numbers import DURATION
from chaos.replay.check import check
from chaos.replay.command import replay, shrink
from chaos.replay.table import shrunk
from chaos.report.command import report
from chaos.report.serve import serve
from chaos.sim.command import sim
from chaos.sim.rejoins import rejoins
from cluster.commands.output import report_option, to_json


@click.group(cls=JudgingGroup)
def chaos() -> None:
    """Inject faults into a running cluster and judge whether it lost data."""


for command in (
    baseline,
    check,
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
@click.option("--seconds", type=DURATION, help="Length of the load instead of the file's.")
@click.option("--seed", type=int, help="Repeat a schedule: same faults, same wishes.")
@click.option("--nodes", type=click.IntRange(1, 9), help="Size of the cluster.")
@click.option(
    "--faults", help="Names joined by commas instead of the file's; all, choreographies are some."
)
@click.option(
    "--network",
    type=click.Choice([one.value for one in Network]),
    help="What nodes dial each other through: our proxies; (root) namespaces and nftables; the "
    "official toxiproxy server, built with Go at first use, ours where Go is absent; or ours.",
)
@click.option("--each", is_flag=True, help="Every kind once, one after the other.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A new folder; runs/<time>-chaos-<seed>."
)
@click.option("--keep", is_flag=True, help="Keep the replicas' files of a valid run, too.")
@evidence_option("--counts", COUNTS_FILE, "Count the run in a file (JSON lines).")
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
    profile = " ".join(
        [
            config.stem if config is not None else "default",
            *([f"--faults {faults}"] if faults is not None else ()),
            *(["--each"] if each else ()),
        ]
    )
    sys.exit(supervise(planned, Wanted(again, out, keep, output == "json", counts, profile)))


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
            changes["kinds"] = kinds_named(name.strip() for name in faults.split(","))
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
            to_json(
                {"faults": rows, "available": _count(found), "namespaces": in_namespaces()}
                | {"toxiproxy": {"server": which_server(), "kinds": list(toxics.FAULTS)}}
            )
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
    click.echo(
        f"with --network toxiproxy: {len(toxics.FAULTS)} kinds through {which_server()} "
        f"({', '.join(toxics.FAULTS)})"
    )


def _count(found: Mapping[str, str]) -> int:
    return sum(not reason for reason in found.values())
