"""`dledger chaos alerts`: faults beside a real Prometheus, and a table of the alerts that fired."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from chaos.alerts.prometheus import NoPrometheus, program
from chaos.alerts.run import Calm, Row, calm, play
from chaos.alerts.scenes import BY_NAME, SCENES, Scene
from chaos.live import interrupted
from chaos.tools.numbers import DURATION
from chaos.tools.outputs import check_folder
from cluster.commands.output import report_option, to_json
from cluster.local.launcher import LauncherError

VALID, INVALID, UNKNOWN = 0, 1, 2
QUICK_FASTER = 30.0


@click.command()
@click.option("--scenes", help="Names joined by commas; all of them by default.")
@click.option("--calm", "calm_seconds", type=DURATION, help="No fault, for so long, instead.")
@click.option("--rate", type=float, default=200.0, show_default=True, help="Sends/s of the calm.")
@click.option(
    *("--faster",),
    type=click.FloatRange(1, 60),
    default=1.0,
    show_default=True,
    help="The rules' minutes are so many times as short.",
)
@click.option("--quick", is_flag=True, help=f"A few scenes, {QUICK_FASTER:g} times faster.")
@click.option("--at-once", type=click.IntRange(1, 8), default=1, show_default=True, help="Scenes.")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder; runs/<time>-alerts.")
@report_option
def alerts(
    scenes: str | None,
    calm_seconds: float | None,
    rate: float,
    faster: float,
    quick: bool,
    at_once: int,
    out: Path | None,
    output: str,
) -> None:
    """Bring about each fault that an alert rule names; does a real Prometheus fire it?"""
    chosen = _chosen(scenes, quick)
    try:
        program()
    except NoPrometheus as error:
        raise click.UsageError(str(error)) from error
    check_folder(out)
    folder = out or Path("runs") / time.strftime("%Y%m%d-%H%M%S-alerts")
    folder.mkdir(parents=True, exist_ok=True)
    # What clients log during faults is for those who ask.
    logging.basicConfig(filename=folder / "client.log", level=logging.INFO)
    faster = QUICK_FASTER if quick else faster
    if calm_seconds is not None:
        found = interrupted.run(calm(folder, calm_seconds, rate=rate, faster=faster))
        _save(folder, {"calm": asdict(found)})
        click.echo(to_json(asdict(found)) if output == "json" else calm_text(found))
        sys.exit(VALID if found.good else INVALID)
    rows = interrupted.run(_all(chosen, folder, faster, at_once))
    _save(folder, {"faster": faster, "rows": [asdict(row) for row in rows]})
    click.echo(to_json([asdict(row) for row in rows]) if output == "json" else table(rows))
    played = [row for row in rows if not row.skipped]
    sys.exit(INVALID if not all(row.good for row in rows) else VALID if played else UNKNOWN)


def _chosen(scenes: str | None, quick: bool) -> list[Scene]:
    if scenes is None:
        return [scene for scene in SCENES if scene.quick or not quick]
    names = [name.strip() for name in scenes.split(",")]
    if unknown := [name for name in names if name not in BY_NAME]:
        raise click.UsageError(
            f"there is no scene {unknown[0]!r}; there are {', '.join(sorted(BY_NAME))}"
        )
    return [BY_NAME[name] for name in names]


async def _all(chosen: Iterable[Scene], folder: Path, faster: float, at_once: int) -> list[Row]:
    room = asyncio.Semaphore(at_once)

    async def one(scene: Scene) -> list[Row]:
        async with room:
            rows = await _rows_of(scene, folder, faster)
        click.echo("\n".join(line(row) for row in rows), err=True)
        return rows

    return [row for rows in await asyncio.gather(*map(one, chosen)) for row in rows]


async def _rows_of(scene: Scene, folder: Path, faster: float) -> list[Row]:
    """The scene's rows; a cluster that a busy machine did not start in time is made again once."""
    for place in (folder / scene.name, folder / f"{scene.name}-again"):
        try:
            return await play(scene, place, faster=faster)
        except (LauncherError, OSError) as error:
            failed = f"could not be played: {error}"
    return [Row(scene.name, "", rule, why=failed) for rule in scene.fires]


def _save(folder: Path, found: object) -> None:
    (folder / "alerts.json").write_text(to_json(found), encoding="utf-8")


def line(row: Row) -> str:
    """One row as a line."""
    if row.skipped:
        return f"{row.scene:17} {row.rule:30} skipped: {row.why}"
    if row.after is None and row.why:
        return f"{row.scene:17} {row.rule:30} {row.why}"
    fired = "DID NOT FIRE" if row.after is None else f"after {row.after:.0f} s"
    cleared = row.why or ("STILL FIRES" if row.cleared is None else f"gone {row.cleared:.0f} s on")
    said = f"{row.scene:17} {row.rule:30} {fired:14} {cleared if row.after is not None else ''}"
    return said.rstrip() + (f"  UNEXPECTED {', '.join(row.unexpected)}" if row.unexpected else "")


def table(rows: Iterable[Row]) -> str:
    """The table in Markdown, as documents have it."""
    lines = [
        "| fault | alert | must hold | fired after | cleared after its end | beside it |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        fired = "skipped" if row.skipped else "no" if row.after is None else f"{row.after:.0f} s"
        gone = row.why or ("no" if row.cleared is None else f"{row.cleared:.0f} s")
        beside = ", ".join([*row.beside, *(f"**{name}**" for name in row.unexpected)])
        fault = row.fault or row.scene
        lines.append(
            f"| {fault} | `{row.rule}` | {row.minutes} min | {fired} | {gone} | {beside} |"
        )
    return "\n".join(lines)


def calm_text(found: Calm) -> str:
    """The sentence about a calm span."""
    return (
        f"calm for {found.seconds:g} s: fired {', '.join(found.fired) or 'nothing'}; conditions "
        f"that held for a moment: {', '.join(found.pending) or 'none'}; sent {found.sent}, failed "
        f"{found.failed}, read {found.read}; load of the machine {found.machine_load[0]:g} to "
        f"{found.machine_load[1]:g}"
    )
