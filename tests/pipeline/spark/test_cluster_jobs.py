"""Commands of `dledger pipeline` on the standalone cluster, as docs/spark-cluster.md prints it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from cluster.local.launcher import LocalCluster
from pipeline.jobs.archive import archive, verify
from pipeline.jobs.backlog import count_log

from ..jobs.stores import DLEDGER, THREE, put
from ..jobs.test_archive import SMALL
from ..source.filled import new_topic
from .standalone import Standalone
from .test_sink import bodies

COUNT = 240
EVEN = range(0, COUNT, 2)
Run = Callable[..., dict[str, Any]]
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture
def run(standalone: Standalone, tmp_path: Path) -> Run:
    """Call it with the words of a command; its JSON. Workers have had executors for it."""

    def command(*words: object) -> dict[str, Any]:
        before = sum(map(standalone.launched, (1, 2)))
        out = standalone.deployment.run(
            "a command on the cluster",
            standalone.variables,
            *(*map(str, words), "-o", "json"),
            cwd=tmp_path,
        )
        assert sum(map(standalone.launched, (1, 2))) > before, words
        found: dict[str, Any] = json.loads(out)
        return found

    return command


def test_archive_and_compact(run: Run, tmp_path: Path) -> None:
    store, root, target = (tmp_path / name for name in ("store", "archive", "compacted"))
    put(store, range(COUNT // 2))
    assert run("archive", store, root)["rows"] == COUNT // 2
    put(store, range(COUNT // 2, COUNT))
    assert run("archive", store, root)["rows"] == COUNT // 2
    assert verify(root) == COUNT
    compacted = run("compact", root, target)
    assert compacted["rows"] == verify(target) == COUNT
    assert compacted["files"] < compacted["files_read"]
    table = ds.dataset(target, format="parquet", partitioning="hive", exclude_invalid_files=True)
    rows = table.to_table(columns=["topic", "date", "queue", "value"]).to_pylist()
    assert sorted(int(row["value"]) for row in rows) == list(range(COUNT))
    for row in rows:
        number = int(row["value"])
        assert (row["topic"], row["queue"]) == (("even", "odd")[number % 2], number % 3)
        assert row["date"]


def test_count_and_audit(run: Run) -> None:
    counted, expected = Counter[str](), Counter[str]()
    for row in run("backlog", DLEDGER)["rows"]:
        counted[row["topic"]] += row["messages"] if row["kind"] == "throughput" else 0
    for row in count_log(DLEDGER).to_pylist():
        expected[row["topic"]] += row["messages"]
    assert +counted == +expected
    assert counted.total() > 0
    assert run("audit", *THREE)["differences"] == []


def test_replay(run: Run, local_cluster: LocalCluster, tmp_path: Path) -> None:
    """Run again, it doubles no message."""
    store, root = tmp_path / "store", tmp_path / "archive"
    put(store, range(COUNT))
    archive(store, root, options=SMALL)
    topic = new_topic(local_cluster, 3)
    for _ in range(2):
        words = ("--servers", local_cluster.nameserver, "--topic", topic)
        assert run("replay", root, "even", *words)["rows"] == len(EVEN)
    assert bodies(local_cluster, topic) == {b"%d" % number: 1 for number in EVEN}
