"""Carries out one live run for the command line: makes its folder, prints its progress, returns its
exit code."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from chaos.checkers.verdict import Word
from chaos.counts.ledger import add_live_run
from chaos.live import folder, interrupted
from chaos.live.nemesis import Happened
from chaos.live.run import Plan, Ran
from chaos.live.run import run as run_plan
from chaos.report.page import write_report
from chaos.report.tables import results
from chaos.tools.exit_codes import HARNESS
from chaos.tools.outputs import check_file, check_folder
from chaos.tools.progress import Advance, progress_bar
from cluster.commands.output import to_json

BAR_SECONDS = 0.25
ANOMALIES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of a run's output, beside the run itself.

    Attributes:
        again: the line that repeats the run.
        out: a new folder, or an empty one; None: runs/<time>-chaos-<seed>.
        keep: the replicas' files of a valid run, too.
        quiet: print one JSON object and nothing else.
        counts: ledger to count the run in, under the name `profile`.
    """

    again: str
    out: Path | None = None
    keep: bool = False
    quiet: bool = False
    counts: Path | None = None
    profile: str = ""


def supervise(planned: Plan, wanted: Wanted) -> int:
    """Run, save, print; the exit code.

    Raises click.UsageError, before anything starts, when folder or ledger cannot be written or no
    fault is planned, and KeyboardInterrupt when somebody asked it to end.
    """
    if planned.proves_nothing:
        raise click.UsageError(planned.proves_nothing)
    check_folder(wanted.out)
    check_file(wanted.counts)
    root = _make_root(planned, wanted.out)
    # What clients log during faults is for those who ask.
    logging.basicConfig(filename=root / "client.log", level=logging.INFO)
    return _carry_out(planned, root, wanted)


def _make_root(planned: Plan, out: Path | None) -> Path:
    try:
        if out is None:
            return folder.new_folder(Path("runs"), planned.seed)
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = out or "a folder in runs"
        said = f"{where} cannot be made: {error.strerror}; name another one with --out"
        raise click.UsageError(said) from error
    return out


def _carry_out(planned: Plan, root: Path, wanted: Wanted) -> int:
    folder.save_plan(root, planned)
    if not wanted.quiet:
        _print_plan(planned, root)
    try:
        told = _ignore if wanted.quiet else _print_fault
        ran = interrupted.run(_watched(planned, root, told))
        extra = {"seed": planned.seed, "folder": str(root), "again": wanted.again}
        said = folder.save_verdict(root, ran, extra)
    except Exception as error:
        traceback.print_exc()
        click.echo(f"the run failed, which says nothing about the cluster: {error}", err=True)
        return HARNESS
    if wanted.counts is not None:
        _count(wanted.counts, wanted.profile, said)
    _report(root)
    if ran.judgement.word.value == 0 and not wanted.keep:
        folder.drop_data(root)
    if wanted.quiet:
        click.echo(to_json(said))
    else:
        _print_verdict(said, root, wanted.again)
    return ran.judgement.word.value


async def _watched(planned: Plan, root: Path, told: Callable[[Happened], None]) -> Ran:
    """The run, with a bar that moves with its seconds."""
    ended = 0

    def counted(one: Happened) -> None:
        nonlocal ended
        ended += 1
        told(one)

    async def move(advance: Advance) -> None:
        began = time.monotonic()
        while True:  # until it is cancelled
            words = f"{ended} of {len(planned.schedule)} faults, seed {planned.seed}"
            advance(time.monotonic() - began, words)
            await asyncio.sleep(BAR_SECONDS)

    with progress_bar(planned.settings.seconds) as advance:
        moving = asyncio.create_task(move(advance))
        try:
            return await run_plan(planned, root, told=counted)
        finally:
            moving.cancel()


def _count(ledger: Path, profile: str, said: Mapping[str, Any]) -> None:
    """Count the run in the ledger; the verdict stands even if the disk is full by now."""
    try:
        add_live_run(ledger, profile, said)
    except OSError as error:
        click.echo(f"the run is not counted in {ledger}: {error}; the verdict stands", err=True)


def _report(root: Path) -> None:
    """Writes report.html. If that fails, it prints the error; the verdict is saved already and
    stands."""
    try:
        write_report(root)
    except Exception as error:
        traceback.print_exc()
        click.echo(f"report.html could not be made: {error}; the verdict stands", err=True)


def _ignore(_: Happened) -> None: ...


def _print_plan(planned: Plan, root: Path) -> None:
    settings = planned.settings
    load = settings.workload
    click.echo(
        f"dledger {version('dledger')}  commit {folder.commit() or '-'}  "
        f"network {settings.network.value}  store {root}"
    )
    click.echo(
        f"workload  append {load.rate:g}/s on {load.queues} queues by {load.producers} producers, "
        f"{load.keyed} with keys, {load.in_memory} in memory; {load.readers} readers, "
        f"{load.registers} registers, {load.sessions} that send and read, {load.groups} groups"
    )
    click.echo(
        f"seed {planned.seed}  nodes {settings.nodes}  {settings.seconds:g} s  "
        f"{len(planned.schedule)} faults of {len(planned.kinds)} kinds"
    )
    for kind, reason in planned.skipped.items():
        click.echo(f"skipped  {kind}: {reason}")
    click.echo(f"\n{'t(s)':>7}  {'fault':14} {'on':10} {'back after':>10}  seen")


def _print_fault(one: Happened) -> None:
    nodes = ",".join(one.nodes)
    seen = one.seen or f"NO EFFECT {one.error}"
    began, back = one.began or 0.0, one.recovery
    click.echo(f"{began:7.1f}  {one.planned.kind:14} {nodes:10} {back:9.2f}s  {seen[:100]}")


def _print_verdict(said: Mapping[str, Any], root: Path, again: str) -> None:
    click.echo("")
    for kind, ends in said["operations"].items():
        click.echo(f"{kind:8} " + "  ".join(f"{end} {count}" for end, count in ends.items()))
    for anomaly in said["anomalies"][:ANOMALIES_SHOWN_MAX]:
        click.echo(f"{anomaly['name']}: {anomaly['detail']}")
    for reason in said["unknown_because"][:ANOMALIES_SHOWN_MAX]:
        click.echo(f"unknown: {reason}")
    for one in results(said):
        click.echo(f"{one.word}  {one.promise}  {one.broken or one.silent}".rstrip())
    found = ", ".join(f"{node} {count}" for node, count in said["replicas"].items())
    faults = said["faults"]
    click.echo(f"messages in the log of each replica: {found}")
    click.echo(
        f"faults that took effect {faults['took_effect']} of {faults['carried_out']} in "
        f"{len(faults['kinds'])} kinds; longest silence {said['gap_max_ms'] / 1e3:.2f} s; "
        f"one end after {said['converged_seconds']} s"
    )
    if copies := said["copies"]:
        chains = sorted(set(copies["chains"].values()))
        click.echo(
            f"replicas compared: {copies['bytes']} bytes in {copies['files']} rows of files each, "
            f"entries {copies['first_index']}..{copies['last_index']}, chain "
            + ", ".join(
                f"{chain} × {list(copies['chains'].values()).count(chain)}" for chain in chains
            )
        )
    if said["power_cuts"]:
        click.echo(f"power cuts {said['power_cuts']}, {said['lost_pages']} pages lost with them")
    if said["acked_in_memory"]:
        click.echo(
            f"acknowledged in memory {said['acked_in_memory']}, "
            f"{said['taken_back']} of them taken back by power cuts of a majority, as they may"
        )
    click.echo(
        f"{said['verdict'].upper()}   acknowledged {said['acked']}   lost {said['lost']}   "
        f"doubled {said['doubled']}   reordered {said['reordered']}   others {said['others']}"
    )
    click.echo(f"run folder  {root}\nreport      {root / 'report.html'}\nagain       {again}")
    if said["verdict"] == Word.INVALID.name.lower():
        click.echo(f"smaller     dledger chaos shrink {root}   (simulated)")
