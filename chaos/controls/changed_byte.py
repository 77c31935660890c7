"""Changes one byte of one replica's files after a good run: the comparison of the replicas' bytes
must find it.

    n0 ✓   n1 ✗   n2 ✓        a hash of a tag, in the middle of a consume queue of n1

No message is lost by it and every record of the log is whole, so nothing but the comparison of the
replicas' bytes can tell.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chaos.checkers.verdict import Word
from chaos.controls.control import Control, Shown
from chaos.live.copies import read_copies
from chaos.live.judgement import judge_run
from chaos.live.run import TOPIC, limits_of, make_plan
from chaos.live.run import run as run_plan
from chaos.live.settings import RunSettings
from chaos.workloads import Workload
from cluster.local.launcher import LocalCluster

LOAD = Workload(
    queues=1, producers=8, keyed=0, readers=0, registers=0, groups=0, rate=200.0, asks=1.0
)
SECONDS = 6.0
UNIT_SIZE = 20  # of a consume queue (docs/spec/store.md 3.1)
EXPECTED = "bytes-differ"


async def run(root: Path, seed: int) -> Shown:
    """Raises LauncherError, OSError."""
    settings = RunSettings(seconds=SECONDS, kinds=("transfer",), workload=LOAD)
    ran = await run_plan(make_plan(settings, seed), root)
    evidence = ran.evidence
    if ran.judgement.word is Word.INVALID or evidence.copies is None:
        found = [anomaly.name for anomaly in ran.judgement.verdict.anomalies]
        return Shown(False, f"the run before the change was not good itself: {found}")
    cluster = LocalCluster(root / "cluster")
    node = cluster.brokers[1]
    change(cluster, node)
    after = replace(evidence, copies=read_copies(cluster, evidence.copies.last))
    judged = judge_run(after, limits_of(settings))
    found = [str(anomaly.name) for anomaly in judged.verdict.anomalies]
    said = f"before: none; after one byte of {node} changed: {', '.join(found) or 'none'}"
    return Shown(EXPECTED in found, said)


def change(cluster: LocalCluster, node: str) -> None:
    """Flip a bit of the hash of the tag of the first message of a queue."""
    folder = cluster.folder(node) / "data" / "consumequeue" / TOPIC / "0"
    with min(folder.iterdir()).open("r+b") as file:
        file.seek(UNIT_SIZE - 1)
        (was,) = file.read(1)
        file.seek(UNIT_SIZE - 1)
        file.write(bytes([was ^ 1]))


CONTROL = Control(
    "changed-byte",
    "one byte of one replica's consume queue changes after a good run",
    EXPECTED,
    lambda: "",
    run,
)
