"""`dledger bench spark-jobs`: archive, audit, rebuild and history check on made input.

One process unless `--jobs` says more; every job `repeats` times in turn; the median decides. Bars:
archive 200 MB/s, audit 1 M entries/s, history 400 k operations/s, rebuild equal to itself from one
piece and from many.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from cluster.commands.bench import tell
from cluster.commands.output import report_option
from commitlog.config import StoreConfig
from pipeline.bench.made import make_history, make_log
from pipeline.bench.options import folder_option, repeats_option
from pipeline.bench.turns import Job, take_turns
from pipeline.jobs.archive import archive, verify
from pipeline.jobs.audit import audit
from pipeline.jobs.history.check import HistoryVerdict, check
from pipeline.jobs.history.files import write_history, write_log
from pipeline.jobs.rebuild import compare, rebuild
from pipeline.jobs.workers import Processes, Workers

ARCHIVE_BAR, AUDIT_BAR, HISTORY_BAR = 200e6, 1e6, 400e3
QUEUES = 8
GEOMETRY = StoreConfig(index_slots=500_000, index_entries=2_000_000)


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of the inputs."""

    entries: int = 2_000_000
    operations: int = 8_000_000
    repeats: int = 5
    jobs: int = 1
    folder: str = ""


def run(options: Options) -> dict[str, Any]:
    """Medians and bests, and which bars were met."""
    workers = Processes(options.jobs)
    with tempfile.TemporaryDirectory(prefix="dledger-jobs-", dir=options.folder or None) as name:
        root = Path(name)
        log_bytes = make_log(root / "n0", options.entries)
        entries = _second_replica(root)
        for queue in range(QUEUES):
            table, log = make_history(options.operations // QUEUES, queue)
            write_history(root / "h", f"q{queue}", table)
            write_log(root / "h", "n0", f"q{queue}", log)
        jobs = _jobs(root, workers, (log_bytes, entries, options.operations))
        measured = take_turns(jobs, options.repeats, warm_ups=0)
        faults = _faults(root, entries, workers)
    rates = {name: median(found) for name, found in measured.items()}
    return {
        **rates,
        "best": {name: max(found) for name, found in measured.items()},
        "log_bytes": log_bytes,
        "entries": entries,
        "operations": options.operations,
        "bars": {
            "archive_met": rates["archive_bytes_per_s"] >= ARCHIVE_BAR,
            "audit_met": rates["audit_entries_per_s"] >= AUDIT_BAR,
            "history_met": rates["history_operations_per_s"] >= HISTORY_BAR,
            "faults_named_met": not faults,
        },
        "faults": faults,
    }


def _second_replica(root: Path) -> int:
    """A second replica beside the first; how many entries each has."""
    shutil.copytree(root / "n0", root / "n1")
    text = (root / "n0" / "dledger-n0" / "checkpoint").read_text()
    return int(text.split("=")[1].splitlines()[0]) + 1


def _jobs(root: Path, workers: Workers, amounts: tuple[int, int, int]) -> dict[str, Job]:
    def archived() -> None:
        shutil.rmtree(root / "archive", ignore_errors=True)
        archive(root / "n0", root / "archive", workers=workers)

    def audited() -> None:
        assert audit({"n0": root / "n0", "n1": root / "n1"}, workers=workers).is_clean

    def rebuilt() -> None:
        shutil.rmtree(root / "derived", ignore_errors=True)
        rebuild(root / "n0", root / "derived", config=GEOMETRY, workers=workers)

    def judged() -> None:
        found: HistoryVerdict = check(root / "h", workers=workers)
        assert not found.names, found.names

    log_bytes, entries, operations = amounts
    return {
        "archive_bytes_per_s": Job(log_bytes, archived),
        "audit_entries_per_s": Job(2 * entries, audited),
        "rebuild_entries_per_s": Job(entries, rebuilt),
        "history_operations_per_s": Job(operations, judged),
    }


def _faults(root: Path, entries: int, workers: Workers) -> list[str]:
    """Lists the planted faults that the jobs did not notice; [] is good."""
    missed = []
    rows = verify(root / "archive")
    if rows != entries:
        missed.append(f"the archive has {rows} rows")
    rebuild(root / "n0", root / "again", config=GEOMETRY, workers=workers)
    missed += compare(root / "derived", root / "again")
    path = root / "n1" / "dledger-n0" / "data" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))
    found = audit({"n0": root / "n0", "n1": root / "n1"}, workers=workers)
    if [difference.index for difference in found.differences] != [0]:
        missed.append(f"the audit named {found.differences}")
    return missed


@click.command("spark-jobs")
@click.option(
    "--entries", type=click.IntRange(4096), default=2_000_000, show_default=True, help="Of the log."
)
@click.option(
    "--operations",
    type=click.IntRange(1000),
    default=8_000_000,
    show_default=True,
    help="Of the history.",
)
@repeats_option
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@folder_option
@report_option
def command(
    entries: int, operations: int, repeats: int, jobs: int, folder: str, output: str
) -> None:
    """Archive, audit, rebuild, history check: bytes, entries and operations per second."""
    tell(run(Options(entries, operations, repeats, jobs, folder)), output)
