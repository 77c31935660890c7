"""The folder of one run, for people, for `dledger chaos check` and for reports.

verdict.json     the word, every count, every anomaly        (judgement.py)
history.jsonl    what clients saw                            (chaos/history.py)
faults.jsonl     each fault: planned and observed            (nemesis.py, Happened)
nodes.jsonl      roles, terms and ends of logs over time     (observer.py)
zero.json        when the run's seconds began                (node_trace.py)
replicas.json    node → queue → [[queue offset, value], …]   the final logs
copies.json      hashes of the replicas' bytes               (copies_json.py); none without an end
ended.json       what only the harness saw, and a list of all evidence (evidence_files.py)
report.html      all of it for people; anomalies/*.txt one text for each anomaly (chaos/report)
env.json         seed, commit, kernel, versions, settings, swarm parameters, each kind's driver,
                 skipped kinds
cluster/<node>/  log.txt, node.toml, trace.jsonl (node_trace.py); data when the run was not valid
                 or --keep was given
disks/<node>.img when the nodes had disks of their own, and data is kept

env.json is there before the run begins; history, faults and nodes grow while it runs (streamed.py),
traces too. A run that died leaves these and no ended.json; one whose judge failed, no verdict.json.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chaos.faults import kind_of
from chaos.live.evidence_files import ENDED
from chaos.live.json_files import write_json
from chaos.live.run import Plan, Ran

GIT_SECONDS_MAX = 5.0


def new_folder(runs: Path, seed: int, kind: str = "chaos") -> Path:
    """runs/<time>-<kind>-<seed>, and the link `latest` to it."""
    root = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{kind}-{seed}"
    root.mkdir(parents=True)
    link = runs / f".latest-{os.getpid()}"
    link.symlink_to(root.name)
    link.replace(runs / "latest")
    return root


def save_plan(root: Path, planned: Plan) -> None:
    """Writes env.json before the run: its plan, its versions and its machine."""
    write_json(
        root / "env.json",
        {
            "seed": planned.seed,
            "commit": commit(),
            "dledger": version("dledger"),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "processors": os.cpu_count(),
            "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "settings": asdict(planned.settings),
            "swarm": [asdict(weather) for weather in planned.swarm],
            "kinds": list(planned.kinds),
            "drivers": {kind: kind_of(kind).driver.value for kind in planned.kinds},
            "skipped": dict(planned.skipped),
            "schedule": [one.to_fields() for one in planned.schedule],
            "in_turn": planned.in_turn,
        },
    )


def save_verdict(root: Path, ran: Ran, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Writes verdict.json after the run, when the evidence is in the folder already. Returns its
    fields."""
    said = {**ran.judgement.summary, **extra, "seconds": round(ran.seconds, 1)}
    said["load_seconds"] = ran.evidence.seconds
    said["evidence"] = ENDED
    write_json(root / "verdict.json", said)
    return said


def drop_data(root: Path) -> None:
    """Forget the replicas' files and disks of a run that needs no second look."""
    shutil.rmtree(root / "disks", ignore_errors=True)
    for folder in (root / "cluster").glob("*/data"):
        shutil.rmtree(folder, ignore_errors=True)


def commit() -> str:
    """The commit of the checkout that runs; "" when there is none to ask."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
