"""Kind 36: one node runs another release for a while, on the data that this one wrote, and back.

$DLEDGER_OLD_RELEASE is a folder in which the other release's packages are (`pip install --target`
of its wheel, or an older checkout); it must have chaos.live.node_main.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import cluster
from chaos.drivers.stage import Fault, Stage
from cluster.local import processes

VARIABLE = "DLEDGER_OLD_RELEASE"
ASK_SECONDS_MAX = 20.0
PACKAGES = ("commitlog", "dledger", "cluster")
OURS = Path(cluster.__path__[0]).parent
_MODULE = Path("chaos") / "live" / "node_main.py"


def why_not() -> str:
    """Why no other release can be run here; "" when one can."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return f"needs another release: set {VARIABLE} to a folder that has its packages"
    if not (Path(folder) / _MODULE).exists():
        return f"needs another release in {VARIABLE}: there is no {_MODULE} in {folder}"
    if _digest(Path(folder)) == _digest(OURS):
        return f"needs another release in {VARIABLE}: the code in {folder} is this one's"
    return ""


def _digest(root: Path) -> bytes:
    """Returns a digest of the source files that a node runs."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.digest()


async def version_skew(stage: Stage) -> str:
    """A clean stop, the other release on the same data, a clean stop, and this one again."""
    # Without the safe path, modules of the working folder would come first.
    other = {"PYTHONPATH": os.environ[VARIABLE], "PYTHONSAFEPATH": "1"}
    place = await asyncio.to_thread(_place_of_packages, other)
    around = stage.arena.cluster.environment
    before = around.get(stage.node, {})
    around[stage.node] = before | other
    try:
        await asyncio.to_thread(processes.stop, [stage.folder(stage.node)])
        await stage.start(stage.node)
        refused = await stage.started_or_refused(stage.node)
        process = stage.process(stage.node)
        runs = process is not None and process.environ().get("PYTHONPATH") == other["PYTHONPATH"]
        await stage.hold()
        await asyncio.to_thread(processes.stop, [stage.folder(stage.node)])
    finally:
        around[stage.node] = before
    await stage.start(stage.node)
    if refused or not runs or not place.startswith(os.environ[VARIABLE]):
        return ""
    return f"{stage.node} ran the packages of {place} for {stage.seconds:.1f} s"


def _place_of_packages(environment: dict[str, str]) -> str:
    """Where a process with this environment finds our packages."""
    done = subprocess.run(
        [sys.executable, "-c", "import cluster; print(cluster.__path__[0])"],
        capture_output=True,
        text=True,
        timeout=ASK_SECONDS_MAX,
        check=False,
        env=os.environ | environment,
    )
    return done.stdout.strip()


FAULTS: dict[str, Fault] = {"version-skew": version_skew}
