"""`dledger bench spark-kafka`: the same messages through Kafka's Spark connector and through ours.

Makes the peer's parts when they are not there, then measures in a process of their environment.
Three nodes of each. Bars: ours reads at 1.5 of the speed of Kafka's, and writes at 0.8.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cluster.commands.bench import tell
from cluster.commands.output import report_option
from pipeline.bench.kafka.installation import ROOT, Kafka, install
from pipeline.bench.kafka.side_by_side import Options
from pipeline.bench.options import folder_option, repeats_option

RUN_SECONDS_MAX = 1800.0


def run(options: Options, kafka: Kafka) -> dict[str, Any]:
    """Runs side_by_side.py and returns its printed figures. Raises RuntimeError with its last
    words."""
    command = [
        str(kafka.python),
        "-m",
        "pipeline.bench.kafka.side_by_side",
        json.dumps(asdict(options)),
    ]
    with tempfile.TemporaryDirectory(prefix="dledger-kafka-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as errors:
            done = subprocess.run(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, timeout=RUN_SECONDS_MAX
            )
        if done.returncode:
            raise RuntimeError(f"the run failed: {log.read_text(errors='replace')[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@click.command("spark-kafka")
@click.option(
    "--rows", type=click.IntRange(1000), default=600_000, show_default=True, help="To read."
)
@click.option(
    "--written", type=click.IntRange(1000), default=150_000, show_default=True, help="To write."
)
@repeats_option
@click.option("--one-node", is_flag=True, help="One node of each system, too.")
@folder_option
@report_option
def command(
    rows: int, written: int, repeats: int, one_node: bool, folder: str, output: str
) -> None:
    """Kafka's connector and ours, reading and writing by turns: rows per second, ratios."""
    tell(run(Options(rows, written, repeats, folder, one_node), install()), output)
