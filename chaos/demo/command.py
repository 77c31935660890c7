"""`dledger demo`: the first command of the README; `course.py` has its course."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from chaos.demo.course import Options, Result, run
from chaos.demo.view import Lines, LiveTable, Quiet
from chaos.live.folder import new_folder
from cluster.client.config import BODY_SIZE_MAX
from cluster.commands.output import report_option, to_json

INPUT_BYTES_MAX = 256 << 20


def verdict_line(result: Result) -> str:
    """The one line to look at."""
    verdict = result.verdict
    word = "PASS" if result.passed else "FAIL"
    return (
        f"sent {result.sent}   acknowledged {verdict.acked}   lost {verdict.lost}   "
        f"doubled {verdict.doubled}   reordered {verdict.reordered}        {word}"
    )


@click.command()
@click.option("--input", "source", type=click.File("rb"), help="Send the lines of this file.")
@click.option("--seed", type=int, help="Repeat a run: same moments, same messages.")
@click.option(
    "--rate", type=click.IntRange(1, 20_000), default=1000, show_default=True, help="Messages/s."
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where the run's folder is made.",
)
@click.option("--keep", is_flag=True, help="Keep the replicas' files, not only when it failed.")
@report_option
def demo(source: Any, seed: int | None, rate: int, runs: Path, keep: bool, output: str) -> None:
    """Three brokers, real traffic, a leader killed and one cut off; then count the lost messages.

    Ends by itself in under a minute. Exit code 0: every acknowledged message stands on every
    replica, once and in order, and reached the consumers. 1: not so.
    """
    lines = _lines(source) if source else None
    seed = random.randrange(1_000_000) if seed is None else seed
    root = new_folder(runs, seed, "demo")
    # What clients log during faults is for those who ask, not for the first screen.
    logging.basicConfig(filename=root / "client.log", level=logging.INFO)
    options = Options(root, seed, rate, lines)
    view = Quiet() if output == "json" else LiveTable() if sys.stdout.isatty() else Lines()
    result = asyncio.run(run(options, view))
    (root / "verdict.json").write_text(to_json(result.summary()) + "\n", encoding="utf-8")
    if result.passed and not keep:
        for name in result.replicas:
            shutil.rmtree(root / "cluster" / name / "data")
    if output == "json":
        click.echo(to_json(result.summary() | {"seed": seed, "folder": str(root)}))
    else:
        _print(result, root, _again(seed, source, rate))
    sys.exit(0 if result.passed else 1)


def _print(result: Result, root: Path, again: str) -> None:
    found = ", ".join(f"{name} {count}" for name, count in result.replicas.items())
    click.echo(f"\nmessages in the log of each replica: {found}")
    for anomaly in result.verdict.anomalies[:20]:
        click.echo(f"{anomaly.name}: {anomaly.detail}")
    for name in result.undelivered[:20]:
        click.echo(f"undelivered: {name} was acknowledged and never reached the consumer group")
    click.echo(verdict_line(result))
    click.echo(f"{_gaps(result)}; {result.seconds:.0f} s in all")
    click.echo(f"run folder  {root}      again  {again}")


def _gaps(result: Result) -> str:
    measured = [gap for gap in result.gaps if gap.seconds is not None]
    if not measured:
        return "no message was waiting at either fault"
    gaps = ", ".join(f"{gap.seconds:.2f} s after the {gap.fault}" for gap in measured)
    return f"no acknowledgement for {gaps}"


def _again(seed: int, source: Any, rate: int) -> str:
    words = ["scripts/demo", "--seed", str(seed)]
    if source:
        words += ["--input", source.name]
    if rate != 1000:
        words += ["--rate", str(rate)]
    return " ".join(words)


def _lines(source: Any) -> list[bytes]:
    """Returns the file's lines as bytes, in any encoding. Raises click.BadParameter if the file is
    empty or too large, or a line is."""
    data: bytes = source.read(INPUT_BYTES_MAX + 1)
    if len(data) > INPUT_BYTES_MAX:
        raise click.BadParameter(
            f"the file has over {INPUT_BYTES_MAX >> 20} MiB; give a part of it"
        )
    if not data:
        raise click.BadParameter("the file has no lines")
    lines = data.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, 1):
        if len(line) > BODY_SIZE_MAX:
            raise click.BadParameter(
                f"line {number} has {len(line)} bytes and a message at most {BODY_SIZE_MAX}; "
                "shorten it"
            )
    return lines
