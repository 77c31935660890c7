"""Shared by the benches that kill under load: the load, the end of a gap, the report.

The load is steady and light, so that a gap measures detection, election and the client's search,
not a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import click

from chaos.checkers.verdict import Word, judge
from chaos.live.gaps import gap_after
from chaos.live.load import Body, Load
from chaos.live.replicas import read_all
from cluster.bench.disk import percentile
from cluster.client import Client
from cluster.commands.output import to_json
from cluster.local.launcher import LocalCluster

WORKERS = 32
# A body that is easy to find in a hex dump and makes records of some hundred bytes.
BODY_SIZE = 200
# Acknowledgements must flow for so long before a gap counts as over.
FLOWING_SECONDS = 0.15
SETTINGS = {"raft.data_file_size": str(64 << 20), "raft.index_file_size": str(16 << 20)}
ANOMALIES_SHOWN_MAX = 20


@contextlib.asynccontextmanager
async def sending(client: Client, topic: str, rate: int) -> AsyncIterator[Load]:
    """Producers that send `rate` messages per second until the block ends."""
    await client.admin().create_topic(topic)
    load = Load(client, topic, workers=WORKERS, pause=WORKERS / rate)
    task = asyncio.ensure_future(load.run(_bodies))
    try:
        yield load
    finally:
        load.stop()
        await asyncio.gather(task, return_exceptions=True)
    task.result()


def _bodies(worker: int) -> Iterator[Body]:
    number = 0
    while True:  # ended by Load.stop
        name = f"{worker}-{number}"
        yield name, f"{name} ".encode().ljust(BODY_SIZE, b".")
        number += 1


async def flowing(
    load: Load, moment: float, *, seconds_max: float, late_seconds: float = 0.0
) -> float:
    """Wait until acknowledgements flow again after `moment`; the longest gap around it, seconds.

    `late_seconds`: for so long answers that were under way at `moment` may still arrive; they end
    no gap. Raises TimeoutError after `seconds_max`.
    """
    async with asyncio.timeout(seconds_max):
        while True:  # bounded by the time-out
            now = time.monotonic()
            acked = load.acknowledged_at
            late = acked and acked[-1] > max(moment + late_seconds, now - FLOWING_SECONDS / 2)
            if late and gap_after(acked, now - FLOWING_SECONDS, now) < FLOWING_SECONDS:
                return gap_after(acked, moment, now)
            await asyncio.sleep(0.01)


async def judged(
    load: Load, cluster: LocalCluster, topic: str, gaps: Iterable[float], began: float
) -> dict[str, object]:
    """Judges all messages by the files of a stopped cluster; `gaps` in seconds. Returns the
    report's fields."""
    verdict = judge(load.history, await asyncio.to_thread(read_all, cluster, topic))
    ordered = sorted(gap * 1e3 for gap in gaps)
    return {
        "sent": load.sent,
        **verdict.counts(),
        "gap_p50_ms": round(percentile(ordered, 0.5), 1),
        "gap_p99_ms": round(percentile(ordered, 0.99), 1),
        "gap_max_ms": round(ordered[-1], 1),
        "seconds": round(time.monotonic() - began, 1),
        "passed": verdict.word is Word.VALID,
        "anomalies": [
            f"{anomaly.name}: {anomaly.detail}"
            for anomaly in verdict.anomalies[:ANOMALIES_SHOWN_MAX]
        ],
    }


def report(result: dict[str, object], folder: Path, output: str) -> None:
    """Print, and exit by the verdict; `folder` stays where something was lost."""
    if result["passed"]:
        shutil.rmtree(folder)
    else:
        result["folder"] = str(folder)
    if output == "json":
        click.echo(to_json(result))
    else:
        for name, value in result.items():
            click.echo(f"{name:12} {value}")
    sys.exit(0 if result["passed"] else 1)
