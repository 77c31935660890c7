"""Runs a cluster for one benchmark: on free addresses, in a folder that is removed at the end."""

from __future__ import annotations

import contextlib
import os
import pstats
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from cluster.local import plan, processes
from cluster.local.launcher import LocalCluster

PROFILE_LINES = 25


@contextlib.contextmanager
def scratch_cluster(
    folder: str = "", nodes: int = 3, settings: Mapping[str, str] | None = None
) -> Iterator[LocalCluster]:
    """A running cluster. Its own folder is made in `folder`; "": in the system's temporary one."""
    with tempfile.TemporaryDirectory(prefix="dledger-bench-", dir=folder or None) as name:
        members = plan.plan(nodes, plan.scratch_hosts(nodes))
        cluster = LocalCluster.create(Path(name) / "cluster", members, settings, tied=True)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()


@contextlib.contextmanager
def bench_cluster(root: str, folder: str, settings: str) -> Iterator[LocalCluster]:
    """The running local cluster in `root`; if that is "", one made in `folder` for the run.

    `settings`: section.key=value joined by ";" for the one that is made.
    """
    if root:
        yield LocalCluster(Path(root))
        return
    pairs = (pair.partition("=") for pair in settings.split(";") if pair)
    with scratch_cluster(folder, settings={key: value for key, _, value in pairs}) as cluster:
        yield cluster


@contextlib.contextmanager
def profiling(prefix: str) -> Iterator[None]:
    """Nodes that are started inside write their profiles to files named `prefix`.<process id>."""
    if prefix:
        os.environ["DLEDGER_PROFILER_FILES"] = prefix
    try:
        yield
    finally:
        os.environ.pop("DLEDGER_PROFILER_FILES", None)


def hottest(file: str) -> dict[str, float]:
    """Function → its own share of a profiled process's time in percent, the largest first."""
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, Any]]
    stats = pstats.Stats(file).stats  # type: ignore[attr-defined]  # typeshed does not know it
    total = sum(row[2] for row in stats.values())
    ordered = sorted(stats.items(), key=lambda item: item[1][2], reverse=True)
    return {
        f"{Path(path).name}:{line} {name}": 100 * row[2] / total
        for (path, line, name), row in ordered[:PROFILE_LINES]
    }


def process_of(cluster: LocalCluster, name: str) -> psutil.Process:
    """The running process of a member."""
    process = processes.running(cluster.folder(name))
    assert process is not None, f"{name} does not run"
    return process


def cpu_seconds(process: psutil.Process) -> float:
    """User and system time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def anonymous_mb(process: psutil.Process) -> float:
    """Resident memory that no file backs: mapped log files do not count, they are cache."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    # On other systems than Linux: the figure of psutil that is nearest to it.
    return float(process.memory_full_info().uss) / 1e6


def wait_until_serving(cluster: LocalCluster, began: float) -> float:
    """Seconds from `began` (monotonic) until every member is ready."""
    cluster.wait_ready(120)
    return time.monotonic() - began
