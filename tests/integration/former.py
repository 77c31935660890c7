"""The former release: its sources come from this repository's history, its nodes are processes.

    docs/releases.toml: the newest version; this checkout's is newer, as a release that is recorded
    raises it (CONTRIBUTING.md)

    COMMIT ── git archive ──► a folder ── PYTHONPATH ──► python -m cluster.cli node run FILE

It runs by this environment's Python and packages, so nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.core.feature_level import LEVEL as LEVEL_HERE
from tests.integration.nodes_by_hand import ROOT, ByHand
from tests.waiting import limit


class Release(NamedTuple):
    """A row of docs/releases.toml; `level`: the feature level that it understands."""

    version: str
    commit: str
    level: int


def releases() -> list[Release]:
    """All of them, the oldest first."""
    rows = tomllib.loads((ROOT / "docs" / "releases.toml").read_text("utf-8"))["release"]
    return [Release(**row) for row in rows]


def version_here() -> str:
    """The version of this checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


NEWEST = releases()[-1]
VERSION, COMMIT, LEVEL = NEWEST
BELOW = [row for row in releases() if row.level < LEVEL_HERE][-1]
"""The newest release that does not understand this checkout's feature level."""


@dataclass(frozen=True, slots=True)
class Former:
    """`sources`: where it was unpacked."""

    sources: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.sources), "PYTHONDONTWRITEBYTECODE": "1"}

    def done(self, *arguments: str) -> str:
        """A command of it, which must succeed: its output."""
        command = [sys.executable, "-m", "cluster.cli", *arguments]
        found = subprocess.run(
            command,
            cwd=self.sources,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=limit(60),
        )
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    def run(self, nodes: ByHand, name: str) -> None:
        """Start the node that `nodes` has by that name."""
        self._start(nodes, name, "cluster.cli", "node", "run", str(nodes.file(name)))

    def name_server(self, nodes: ByHand, address: str, *options: str) -> None:
        """Start one."""
        module = "cluster.local.nameserver_main"
        self._start(nodes, "ns", module, "--listen", address, *options)

    def _start(self, nodes: ByHand, name: str, module: str, *arguments: str) -> None:
        with (nodes.folder / f"{name}.txt").open("ab") as log:
            nodes.processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.sources,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def former_release(folder: Path, release: Release = NEWEST) -> Former:
    """Unpack it below `folder`. Skips in a clone without the history."""
    _, commit, level = release
    known = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    if subprocess.run(known, capture_output=True, check=False).returncode:
        pytest.skip(f"needs the history: {commit[:8]} (git fetch --unshallow)")
    sources = folder / "former"
    sources.mkdir()
    archive = ["git", "-C", str(ROOT), "archive", "--format=tar", commit]
    packages = ("commitlog", "dledger", "cluster", "conf", "pyproject.toml")
    made = subprocess.run([*archive, *packages], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(sources)], input=made, check=True)
    found = Former(sources)
    says = "import cluster.core.feature_level as one; print(one.__file__, one.LEVEL)"
    command = [sys.executable, "-c", says]
    told = subprocess.run(
        command, cwd=sources, env=found.environment(), capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [f"{sources}/cluster/core/feature_level.py", str(level)]
    return found
