"""Makes the settings of a live run from the options of `dledger chaos run`."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chaos.counts.ledger import COUNTS_FILE
from chaos.faults import Network, kinds_named
from chaos.live.run import make_plan
from chaos.live.settings import RunSettings, RunSettingsError, load
from chaos.live.supervisor import Wanted, supervise
from chaos.tools.evidence import evidence_option
from chaos.tools.numbers import DURATION
from cluster.commands.output import report_option


@click.command()
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
