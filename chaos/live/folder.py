"""The folder of one run, for people, for `dledger chaos check` and for reports.

verdict.json     the word, every count, every anomaly        (judgement.py)
history.jsonl    what clients saw                            (chaos/history.py)
faults.jsonl     each fault: planned and observed            (nemesis.py, Happened)
nodes.jsonl      roles, terms and ends of logs over time     (observer.py)
replicas.json    node → queue → [[queue offset, value], …]   the final logs
copies.json      hashes of the replicas' bytes               (copies_json.py); none without an end
env.json         seed, commit, kernel, versions, settings, swarm parameters, skipped kinds
cluster/<node>/  log.txt, node.toml; data when the run was not valid or --keep was given
disks/<node>.img when the nodes had disks of their own, and data is kept
"""

from __future__ import annotations

import json
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

from chaos.checkers.copies import Copies
from chaos.checkers.queues import Replica
from chaos.live import copies_json
from chaos.live.run import Plan, Ran

COPIES = "copies.json"
GIT_SECONDS_MAX = 5.0


def new_folder(runs: Path, seed: int) -> Path:
    """runs/<time>-chaos-<seed>, and the link `latest` to it."""
    root = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-chaos-{seed}"
    root.mkdir(parents=True)
    link = runs / f".latest-{os.getpid()}"
    link.symlink_to(root.name)
    link.replace(runs / "latest")
    return root


def save_plan(root: Path, planned: Plan) -> None:
    """Before the run: what it is going to do, and where."""
    _write(
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
            "swarm": asdict(planned.swarm),
            "kinds": list(planned.kinds),
            "skipped": dict(planned.skipped),
            "schedule": [one.to_fields() for one in planned.schedule],
            "in_turn": planned.in_turn,
        },
    )


def save(root: Path, ran: Ran, extra: Mapping[str, Any]) -> dict[str, Any]:
    """After the run; returns what verdict.json says."""
    with (root / "history.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(op.to_json() + "\n" for op in ran.evidence.history)
    _write_lines(root / "faults.jsonl", [one.to_fields() for one in ran.evidence.happened])
    _write_lines(root / "nodes.jsonl", list(ran.rows))
    _write(root / "replicas.json", ran.evidence.replicas)
    if ran.evidence.copies is not None:
        _write(root / COPIES, copies_json.to_fields(ran.evidence.copies))
    said = {**ran.judgement.summary, **extra, "seconds": round(ran.seconds, 1)}
    said["load_seconds"] = ran.evidence.seconds  # the windows of a later check end there
    _write(root / "verdict.json", said)
    return said


def read_replicas(root: Path) -> dict[str, Replica]:
    """The final logs of a run's folder. Raises OSError, ValueError."""
    found = json.loads((root / "replicas.json").read_text(encoding="utf-8"))
    return {
        node: {queue: [(int(at), str(value)) for at, value in log] for queue, log in queues.items()}
        for node, queues in found.items()
    }


def read_copies(root: Path) -> Copies | None:
    """The hashes of the replicas' bytes; None when they never came to one end.

    Raises OSError, ValueError, KeyError, TypeError.
    """
    path = root / COPIES
    if not path.exists():
        return None
    return copies_json.from_fields(json.loads(path.read_text(encoding="utf-8")))


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


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
