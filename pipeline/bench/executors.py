"""`dledger bench spark-executors`: a raw log on a standalone cluster, by 1, 2 and 4 executors.

    files of a stopped node ─► partitions of equal size ─► executors of one slot each ─► noop

A master and a worker run as processes, and an application for each number of executors, all at the
same time; they read the log by turns, so that other load on the machine slows all alike. No node
runs. Told for each number: wall time, processor time a row and a partition (the executors' JVMs and
their Python; not the driver), and rows, time and processor time of single partitions.

Bars: processor time a row with two executors at most 1.15 times that with one; the largest
partition at most 1.1 times the smallest. Processor time and not wall time: two executors halve the
wall time only where the machine has a free processor for each, and Python's half of it besides.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil

from cluster.commands.bench import tell
from cluster.commands.output import report_option
from pipeline.bench.executors_driver import READ, WAKE, Partition, Took, Work
from pipeline.bench.made import make_log
from pipeline.bench.options import folder_option, repeats_option
from pipeline.bench.standalone import Cluster, end, standalone_cluster
from pipeline.bench.turns import cpu_seconds, spent
from pipeline.options import LogOptions
from pipeline.rawlog.plan import plan

COUNTS = (1, 2, 4)
CPU_BAR, SPREAD_BAR = 1.15, 1.1
BODY_SIZE = 60  # with headers, key, tag and properties a record of some 250 bytes


@dataclass(frozen=True, slots=True)
class Options:
    """`entries` of the log, in blocks of 4,096, read in `partitions` parts.

    `memory_mib`: of each executor; `warm_ups`: reads of each executor's share that do not count.
    """

    entries: int = 1_000_000
    partitions: int = 8
    repeats: int = 5
    memory_mib: int = 512
    warm_ups: int = 3
    counts: Sequence[int] = COUNTS
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A read, with the processor time of all its executors in seconds."""

    took: Took
    cpu: float


class Driver:
    """An application of so many executors, in a process of its own."""

    def __init__(self, cluster: Cluster, work: Work, log: Path) -> None:
        self._cluster, self._log = cluster, log
        command = [
            sys.executable,
            "-m",
            "pipeline.bench.executors_driver",
            json.dumps(asdict(work)),
        ]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self._application = ""

    def wait(self) -> None:
        """Until it has read the log often enough to be warm. Raises RuntimeError."""
        self._application = self._line()

    def turn(self) -> Turn:
        """One read of the log. Raises RuntimeError."""
        self._ask(WAKE)
        before = cpu_seconds(self._executors())
        told = json.loads(self._ask(READ))
        after = cpu_seconds(self._executors())
        partitions = [Partition(**found) for found in told["partitions"]]
        return Turn(Took(told["seconds"], partitions), sum(spent(before, after, 1).values()))

    def _executors(self) -> list[psutil.Process]:
        return self._cluster.executors(self._application)

    def _ask(self, word: str) -> str:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended; its last words are told below
            self.process.stdin.write(f"{word}\n".encode())
            self.process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        if not line:
            raise RuntimeError(f"a driver ended: {self._log.read_text(errors='replace')[-3000:]}")
        return line.strip()


def run(options: Options) -> dict[str, Any]:
    """Figures of each number of executors, and which bars were met."""
    with tempfile.TemporaryDirectory(prefix="dledger-log-", dir=options.folder or None) as name:
        root = Path(name)
        size = make_log(root / "n0", options.entries, BODY_SIZE)
        step = -(-size // options.partitions)
        pieces = plan(LogOptions(root / "n0"))
        rows = sum(piece.last_slot - piece.first_slot for piece in pieces)
        # A worker starts no executor that it has no memory for; Spark adds some to each.
        memory = sum(options.counts) * (options.memory_mib + 384)
        with standalone_cluster(root / "spark", sum(options.counts), f"{memory}m") as cluster:
            works = {
                count: Work(
                    cluster.address,
                    str(root / "n0"),
                    count,
                    step,
                    f"{options.memory_mib}m",
                    options.warm_ups * count,
                )
                for count in options.counts
            }
            turns = _by_turns(cluster, works, root, options.repeats)
    _check(turns, rows)
    return result(turns, rows, size / rows)


def _by_turns(
    cluster: Cluster, works: Mapping[int, Work], root: Path, repeats: int
) -> dict[int, list[Turn]]:
    found: dict[int, list[Turn]] = {count: [] for count in works}
    with contextlib.ExitStack() as stack:
        drivers = {}
        for count, work in works.items():  # one after the other: all at once would starve
            driver = Driver(cluster, work, root / f"driver-{count}.log")
            stack.callback(end, driver.process)
            driver.wait()
            drivers[count] = driver
        for _ in range(repeats):
            for count, driver in drivers.items():
                found[count].append(driver.turn())
    return found


def _check(turns: Mapping[int, Sequence[Turn]], rows: int) -> None:
    for of_count in turns.values():
        for turn in of_count:
            read = sum(partition.rows for partition in turn.took.partitions)
            assert read == rows, f"{read} rows were read, and there are {rows}"


def result(turns: Mapping[int, Sequence[Turn]], rows: int, row_bytes: float) -> dict[str, Any]:
    """The printed figures: medians over the turns of each number of executors."""
    found = {str(count): _figures(of_count, rows) for count, of_count in turns.items()}
    one = found[str(min(turns))]
    spreads = [figures["partitions"]["rows_spread"] for figures in found.values()]
    ratios = {
        count: {
            "cpu_a_row": round(figures["cpu_us_a_row"] / one["cpu_us_a_row"], 3),
            "rows_per_s": round(figures["rows_per_s"] / one["rows_per_s"], 3),
        }
        for count, figures in found.items()
    }
    return {
        "rows": rows,
        "row_bytes": round(row_bytes, 1),
        "processors": os.cpu_count(),
        "executors": found,
        "beside_one": ratios,
        "bars": {
            "cpu_met": "2" not in ratios or ratios["2"]["cpu_a_row"] <= CPU_BAR,
            "partitions_met": max(spreads) <= SPREAD_BAR,
        },
    }


def _figures(turns: Sequence[Turn], rows: int) -> dict[str, Any]:
    count = len(turns[0].took.partitions)
    seconds = median(turn.took.seconds for turn in turns)
    cpu = median(turn.cpu for turn in turns)
    return {
        "seconds": round(seconds, 3),
        "rows_per_s": round(rows / seconds),
        "cpu_us_a_row": round(cpu / rows * 1e6, 3),
        "partitions": {
            "count": count,
            "cpu_s": round(cpu / count, 3),
            "rows_spread": _middle_spread(turns, "rows"),
            "seconds": round(median(each.seconds for each in _all(turns)), 3),
            "seconds_spread": _middle_spread(turns, "seconds"),
            "jvm_cpu_s": round(median(each.jvm_seconds for each in _all(turns)), 3),
            "jvm_cpu_spread": _middle_spread(turns, "jvm_seconds"),
        },
    }


def _all(turns: Sequence[Turn]) -> Iterator[Partition]:
    return (partition for turn in turns for partition in turn.took.partitions)


def _middle_spread(turns: Sequence[Turn], name: str) -> float:
    """The largest partition beside the smallest, by the median over the turns of each."""
    each = zip(*([getattr(p, name) for p in turn.took.partitions] for turn in turns), strict=True)
    middles: list[float] = [median(values) for values in each]
    return round(max(middles) / max(min(middles), 1e-9), 3)


@click.command("spark-executors")
@click.option(
    "--entries", type=click.IntRange(4096), default=1_000_000, show_default=True, help="Of the log."
)
@click.option(
    "--partitions", type=click.IntRange(1), default=8, show_default=True, help="Parts of a read."
)
@click.option(
    "--memory-mib", type=click.IntRange(450), default=512, show_default=True, help="An executor's."
)
@repeats_option
@folder_option
@report_option
def command(
    entries: int, partitions: int, memory_mib: int, repeats: int, folder: str, output: str
) -> None:
    """A raw log on a standalone cluster by 1, 2 and 4 executors: wall time, CPU, partitions."""
    tell(run(Options(entries, partitions, repeats, memory_mib, folder=folder)), output)
