"""`dledger bench spark-all`: every bench of the pipeline after the other, and one table of them.

Each runs in a process of its own, which must not have a session of another; together they take ten
minutes on a quiet machine. The table goes to pipeline/BENCHES.md: the bar, the median of five turns
by turns, the best of them, and whether the median meets the bar.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from pipeline.bench.options import folder_option, repeats_option

TABLE = Path(__file__).resolve().parents[1] / "BENCHES.md"
BENCH_SECONDS_MAX = 900.0
MISSED, UNKNOWN = "**no**", "not measured"
HEAD = """\
# Benches of the pipeline

Written by `dledger bench spark-all`; {when}, {repeats} turns each. The median decides.

| what | bar | median | best | met |
|---|---|---|---|---|
"""

Found = Mapping[str, Any]
Values = Callable[[Found], tuple[float, float]]


class Line(NamedTuple):
    """A row of the table. `values`: median and best of a bench's printed figures; bar 0: none."""

    what: str
    bar: float
    values: Values
    at_most: bool = False

    def text(self, found: Found) -> str:
        """The row in Markdown; `found` are the figures that the bench printed."""
        middle, best = self.values(found)
        meets = middle <= self.bar if self.at_most else middle >= self.bar
        met = "" if not self.bar else "yes" if meets else MISSED
        bar = _text(self.bar) if self.bar else ""
        return f"| {self.what} | {bar} | {_text(middle)} | {_text(best)} | {met} |"


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _same(*path: str) -> Values:
    """One number, which `path` leads to, as median and best."""

    def values(found: Found) -> tuple[float, float]:
        for name in path:
            found = found[name]
        return float(found), float(found)  # type: ignore[arg-type]  # the path ends at a number

    return values


def _pair(*path: str, median: str = "rows_per_s_median", best: str = "rows_per_s_best") -> Values:
    """Two numbers of one object, which `path` leads to."""
    return lambda found: (_same(*path, median)(found)[0], _same(*path, best)(found)[0])


def _each(name: str, unit: str = "rows_per_s") -> Values:
    """Numbers of one name in two objects."""
    return lambda found: (found[f"{unit}_median"][name], found[f"{unit}_best"][name])


def _job(name: str) -> Values:
    return lambda found: (found[name], found["best"][name])


def _beside(what: str, name: str, by: str = "time") -> Values:
    return _same("ratios", what, name, by)


#: bench → its rows of the table
PLAN: Mapping[str, Sequence[Line]] = {
    "spark-log": (
        Line("raw log → Arrow, found by the index, MB/s", 1000, _each("indexed", "mb_per_s")),
        Line("raw log → Arrow, found by search, MB/s", 600, _each("searched", "mb_per_s")),
        Line("a struct loop, the yardstick, MB/s", 0, _each("loop", "mb_per_s")),
        Line("found by the index, beside that loop", 0, _same("indexed_to_loop")),
        Line("`dledger-log` → noop, all columns, rows/s", 1_200_000, _pair("spark", "all")),
        Line("`dledger-log` → noop, four columns, rows/s", 2_000_000, _pair("spark", "pruned")),
        Line("Spark's own Parquet, the same rows, rows/s", 0, _pair("spark", "parquet")),
        Line("all columns beside Parquet, time", 0.9, _same("ratios", "all_to_parquet", "time")),
        Line("all columns beside Parquet, CPU", 0.9, _same("ratios", "all_to_parquet", "cpu")),
        Line("two columns beside all, time", 1.8, _same("ratios", "two_to_all", "time")),
        Line("two columns beside all, CPU", 1.8, _same("ratios", "two_to_all", "cpu")),
    ),
    "spark-source": (
        Line("topic → noop over TCP, rows/s", 600_000, _pair("variants", "all")),
        Line("topic → noop over TCP, MB/s", 150, _same("variants", "all", "mb_per_s_median")),
        Line("Spark's own Parquet, the same rows, rows/s", 0, _pair("variants", "parquet")),
        Line(
            "micro-batch, source only, ms",
            250,
            _pair("micro_batch_ms", median="median", best="best"),
            at_most=True,
        ),
    ),
    "spark-sink": (
        Line("sink, encoded, messages/s of one core", 2_000_000, _each("encode")),
        Line("Spark → cluster of three, messages/s", 50_000, _each("spark")),
        Line("micro-batch, both ends, ms", 400, _same("micro_batch_ms_median"), at_most=True),
    ),
    "spark-jobs": (
        Line("archive, bytes/s", 200e6, _job("archive_bytes_per_s")),
        Line("audit, entries/s", 1e6, _job("audit_entries_per_s")),
        Line("rebuild, entries/s", 0, _job("rebuild_entries_per_s")),
        Line("history check, operations/s", 400e3, _job("history_operations_per_s")),
    ),
    "spark-kafka": (
        Line("reading beside Kafka's, three nodes each, time", 1.5, _beside("read", "three")),
        Line("reading beside Kafka's, CPU", 0, _beside("read", "three", "cpu")),
        Line("writing, once, on disks, beside Kafka's, time", 0.8, _beside("write", "three")),
        Line("writing, once, on disks, beside Kafka's, CPU", 0, _beside("write", "three", "cpu")),
        Line(
            "writing, at least once, on disks, beside Kafka's, time",
            0.8,
            _beside("write", "three_at_least_once"),
        ),
        Line(
            "writing, at least once, in memory as Kafka's, time",
            0.8,
            _beside("write", "three_in_memory"),
        ),
    ),
}


def measure(name: str, repeats: int, folder: str) -> Found | str:
    """Runs a bench and returns its printed figures, or a sentence on why there are none."""
    program = [sys.executable, "-m", "cluster.cli", "bench", name, "-o", "json"]
    command = [*program, "--repeats", str(repeats), "--folder", folder]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BENCH_SECONDS_MAX)
        found: Found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"not through after {BENCH_SECONDS_MAX:g} s"
    except (ValueError, IndexError):
        return " ".join(done.stderr.split())[-200:] or f"exit code {done.returncode}"
    return found


def rows(name: str, found: Found | str) -> list[str]:
    """Lines of the table."""
    if isinstance(found, str):
        return [f"| `{name}` | | | | {UNKNOWN}: {found.replace('|', '/')} |"]
    return [line.text(found) for line in PLAN[name]]


def write(table: Path, lines: Sequence[str], repeats: int) -> None:
    """The whole table."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    table.write_text(HEAD.format(when=when, repeats=repeats) + "\n".join(lines) + "\n", "utf-8")


@click.command("spark-all")
@click.option("--only", multiple=True, type=click.Choice(list(PLAN)), help="These; all otherwise.")
@click.option("--table", type=click.Path(path_type=Path), default=TABLE, help="Where to write it.")
@repeats_option
@folder_option
def command(only: tuple[str, ...], table: Path, repeats: int, folder: str) -> None:
    """Every bench of the pipeline, one table. Exit code 1: a bar was missed."""
    lines: list[str] = []
    for name in only or PLAN:
        click.echo(f"{name} …", err=True)
        lines += rows(name, measure(name, repeats, folder))
        write(table, lines, repeats)
    click.echo(table.read_text("utf-8"))
    sys.exit(1 if any(MISSED in line or UNKNOWN in line for line in lines) else 0)
