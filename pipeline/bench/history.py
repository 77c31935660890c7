"""`dledger bench spark-history`: a history of 50 million operations, made, then checked.

    queues of a million operations, seeded, by arrays ─► Parquet ─► check, queue by queue ─► verdict

One acknowledged message is missing in the log of one queue, drawn by the seed; the check must name
that, once, there, and nothing else. Memory is that of one queue for each process, however long the
history is. Bar: 400,000 operations a second over all, reading the files included.
"""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import click
import pyarrow as pa

from cluster.commands.bench import tell
from cluster.commands.output import report_option
from pipeline.bench.made import make_history
from pipeline.bench.options import folder_option
from pipeline.jobs.history.check import HistoryVerdict, check
from pipeline.jobs.history.files import write_history, write_log
from pipeline.jobs.workers import Processes

RATE_BAR = 400_000
QUEUE_OPERATIONS = 1_000_000
REPLICA = "n0"


@dataclass(frozen=True, slots=True)
class Options:
    """`operations` in all, in queues of `queue_operations` (the last one may have more)."""

    operations: int = 50_000_000
    queue_operations: int = QUEUE_OPERATIONS
    seed: int = 1
    jobs: int = 1
    folder: str = ""


def run(options: Options) -> dict[str, Any]:
    """Measures operations per second and the largest memory of a process, and lists the anomalies
    found."""
    with tempfile.TemporaryDirectory(prefix="dledger-history-", dir=options.folder or None) as name:
        root = Path(name)
        began = time.perf_counter()
        damaged = _make(root, options)
        made_seconds = time.perf_counter() - began
        disk_bytes = sum(path.stat().st_size for path in root.rglob("*.parquet"))
        began = time.perf_counter()
        verdict = check(root, workers=Processes(options.jobs))
        seconds = time.perf_counter() - began
    rate = verdict.operations / seconds
    return {
        "operations": verdict.operations,
        "queues": len(verdict.queues),
        "made_per_s": round(verdict.operations / made_seconds),
        "checked_per_s": round(rate),
        "disk_mb": round(disk_bytes / 1e6),
        "memory_mb_max": round(_memory_bytes_max() / 1e6),
        "found": {queue.log: dict(queue.names) for queue in verdict.queues if queue.names},
        "bars": {
            "checked_per_s": RATE_BAR,
            "rate_met": rate >= RATE_BAR,
            "fault_named_met": _names_only(verdict, damaged),
            "all_checked_met": verdict.operations == options.operations,
        },
    }


def _make(root: Path, options: Options) -> str:
    """Writes the history and its replica's log, queue by queue. Returns the queue with a damaged
    log."""
    count = max(1, options.operations // options.queue_operations)
    chance = Random(options.seed)
    damaged = chance.randrange(count)
    for number in range(count):
        last = number == count - 1
        done = number * options.queue_operations
        size = options.operations - done if last else options.queue_operations
        table, log = make_history(size, number, options.seed)
        if number == damaged:
            log = _without(log, chance.randrange(1, len(log) - 1))
        write_history(root, f"q{number}", table)
        write_log(root, REPLICA, f"q{number}", log)
    return f"q{damaged}"


def _without(log: pa.Table, row: int) -> pa.Table:
    return pa.concat_tables([log.slice(0, row), log.slice(row + 1)])


def _names_only(verdict: HistoryVerdict, damaged: str) -> bool:
    """One message in the middle of the damaged queue is lost, and that is all."""
    found = {queue.log: queue.names for queue in verdict.queues if queue.names}
    return set(found) == {damaged} and (verdict.lost, verdict.doubled) == (1, 0)


def _memory_bytes_max() -> int:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(one).ru_maxrss for one in who) * 1024


@click.command("spark-history")
@click.option(
    "--operations", type=click.IntRange(1000), default=50_000_000, show_default=True, help="In all."
)
@click.option(
    "--queue-operations",
    type=click.IntRange(100),
    default=QUEUE_OPERATIONS,
    show_default=True,
    help="Of one queue: memory goes with it.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another history.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@folder_option
@report_option
def command(
    operations: int, queue_operations: int, seed: int, jobs: int, folder: str, output: str
) -> None:
    """Make and check a history of millions of operations: operations per second, memory."""
    tell(run(Options(operations, queue_operations, seed, jobs, folder)), output)
