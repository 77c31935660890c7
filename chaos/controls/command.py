"""`dledger chaos controls`: runs that must turn red; one that stays green breaks the suite.

Exit codes: 0 every control that can be run here turned red under its name; 1 one did not; 2 none
could be run here.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

import click

from chaos.controls import changed_byte, fsync_lies, fsync_off, majority_rot
from chaos.controls.control import Control
from chaos.live import interrupted
from chaos.tools.outputs import check_folder
from cluster.commands.output import report_option, to_json

CONTROLS: tuple[Control, ...] = (
    fsync_off.CONTROL,
    fsync_lies.CONTROL,
    majority_rot.CONTROL,
    changed_byte.CONTROL,
)


@click.command("controls")
@click.option("--seed", type=int, help="Repeat the same wishes and choices.")
@click.option("--only", help="Names joined by commas; all of them by default.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A new folder; runs/<time>-controls-<seed>."
)
@report_option
def controls(seed: int | None, only: str | None, out: Path | None, output: str) -> None:
    """Break dledger on purpose beyond its promises: each control must be found out."""
    chosen = _chosen(only)
    seed = random.randrange(1_000_000) if seed is None else seed
    root = out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-controls-{seed}"
    check_folder(root)
    rows = [carry_out(control, root / control.name, seed) for control in chosen]
    if output == "json":
        click.echo(to_json({"seed": seed, "folder": str(root), "controls": rows}))
    else:
        for row in rows:
            click.echo(f"{row['state']:8} {row['name']:13} {row['expected']:17} {row['seen']}")
    sys.exit(exit_code(rows))


def _chosen(only: str | None) -> list[Control]:
    if only is None:
        return list(CONTROLS)
    known = {control.name: control for control in CONTROLS}
    names = [name.strip() for name in only.split(",")]
    if unknown := sorted(set(names) - set(known)):
        raise click.UsageError(f"there is no control {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def carry_out(control: Control, root: Path, seed: int) -> dict[str, Any]:
    """Run one; `state` is red, GREEN or skipped."""
    row: dict[str, Any] = {"name": control.name, "expected": control.expected}
    if reason := control.why_not():
        return row | {"state": "skipped", "seen": reason}
    root.mkdir(parents=True)
    shown = interrupted.run(control.run(root, seed))
    return row | {"state": "red" if shown.red else "GREEN", "seen": shown.seen}


def exit_code(rows: list[dict[str, Any]]) -> int:
    """As the module says."""
    states = [row["state"] for row in rows]
    if "GREEN" in states:
        return 1
    return 0 if "red" in states else 2
