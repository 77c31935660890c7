"""Archives: every row once, whole queues, and nothing changed by a job that was killed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from commitlog.errors import StoreUsageError
from commitlog.files.system import OS_FILES
from pipeline.jobs.archive import archive, files_of, read_archive, verify
from pipeline.jobs.committed import committed_index, only_committed
from pipeline.jobs.manifest import (
    NAME,
    STAGING,
    ArchiveError,
    ArchiveFile,
    contiguous,
    read_manifest,
)
from pipeline.jobs.workers import Processes
from pipeline.options import LogOptions
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches

from .stores import DLEDGER, put

SMALL = LogOptions(Path(), partition_bytes=1 << 13)


def bodies(root: Path) -> list[int]:
    return sorted(int(value.as_py()) for value in read_archive(root).column("value"))


def test_rows_are_the_log(tmp_path: Path) -> None:
    done = archive(DLEDGER, tmp_path, options=replace(SMALL, path=DLEDGER))
    options = only_committed(LogOptions(DLEDGER))
    rows = [
        row for piece in plan(options) for b in batches(options, piece) for row in b.to_pylist()
    ]
    assert done.rows == len(rows) > 0
    found = read_archive(tmp_path).to_pylist()
    by_place = {(row["topic"], row["queue"], row["offset"]): row for row in rows}
    assert len(by_place) == len(found) == len(rows)
    for row in found:
        for name, value in by_place[row["topic"], row["queue"], row["offset"]].items():
            if name not in ("key",):
                assert row[name] == value
    assert verify(tmp_path) == len(rows)
    for file in files_of(tmp_path):
        folder = f"topic={quote(file.topic, safe='')}/date={file.date}/queue={file.queue}/"
        assert file.path.startswith(folder)


def test_a_later_job_adds_what_came_and_a_repeated_one_nothing(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    put(store, range(100))
    assert archive(store, root, options=SMALL).rows == 100
    again = archive(store, root, options=SMALL)
    assert (again.rows, again.files, again.generation) == (0, 0, 1)
    put(store, range(100, 150))
    more = archive(store, root, options=SMALL, workers=Processes(2))
    assert (more.rows, more.generation) == (50, 2)
    assert bodies(root) == list(range(150))
    assert verify(root) == 150
    assert read_archive(root, "odd").num_rows == 75


def test_a_job_killed_anywhere_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    """At every step in turn; the next job goes on as if nothing had been."""
    store, root = tmp_path / "store", tmp_path / "archive"
    put(store, range(40))
    archive(store, root, options=SMALL)
    before = (root / NAME).read_bytes()
    put(store, range(40, 80))
    steps: list[str] = []
    archive(store, tmp_path / "other", options=SMALL, step=steps.append)
    assert {step.split()[0] for step in steps} == {"piece", "move", "sync", "write", "rename"}

    class Killed(BaseException):
        pass

    count = 0
    while True:  # ends when a job gets through
        left = [count]

        def step(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        try:
            archive(store, root, options=SMALL, step=step)
            break
        except Killed:
            pass
        if (root / NAME).read_bytes() != before:
            break  # renamed already: only the folder's sync was still due
        assert bodies(root) == list(range(40))
        count += 1
    assert count > 10
    assert archive(store, root, options=SMALL).rows == 0
    assert bodies(root) == list(range(80))
    assert len(list(root.glob("topic=*/**/*.parquet"))) == len(files_of(root))
    assert not (root / STAGING).exists()


def test_damage_and_gaps_are_found(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    put(store, range(30))
    archive(store, root, options=SMALL)
    file = files_of(root)[0]
    path = root / file.path
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ArchiveError, match="not the file that was archived"):
        verify(root)
    path.write_bytes(data)
    bean = json.loads((root / NAME).read_text())
    row = next(r for r in bean["files"] if r["ranges"][0][0] == 0)
    row["ranges"][0][0] += 1
    row["rows"] -= 1
    (root / NAME).write_text(json.dumps(bean))
    with pytest.raises(ArchiveError, match="other rows"):
        verify(root)
    (root / NAME).write_text("{")
    with pytest.raises(ArchiveError, match="cannot be read"):
        archive(store, root)


def file_of(first: int, last: int, queue: int = 0, rows: int = -1) -> ArchiveFile:
    count = last - first + 1 if rows < 0 else rows
    return ArchiveFile(f"f{first}", "t", "2026-01-01", queue, ((first, last),), count, 1, "")


def test_what_contiguous_means() -> None:
    contiguous([file_of(5, 9), file_of(0, 4), file_of(7, 8, queue=1)])
    with pytest.raises(ArchiveError, match="offsets 5 to 5 are missing"):
        contiguous([file_of(0, 4), file_of(6, 9)])
    with pytest.raises(ArchiveError, match="offsets 3 to 4 are twice"):
        contiguous([file_of(0, 4), file_of(3, 9)])
    with pytest.raises(ArchiveError, match="has 3 rows"):
        contiguous([file_of(0, 4, rows=3)])


def test_one_job_at_a_time(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    put(store, range(3))
    root.mkdir()
    code = (
        "import sys; from pathlib import Path; from commitlog.files.system import OS_FILES;"
        "lock = OS_FILES.lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    import subprocess
    import sys

    with subprocess.Popen(
        [sys.executable, "-c", code, str(root / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ArchiveError, match="another job"):
            archive(store, root)
        other.communicate()
    assert archive(store, root).rows == 3
    assert OS_FILES.exists(root / "lock")


def test_only_what_is_committed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(DLEDGER, store)
    committed = committed_index(LogOptions(store))
    assert committed is not None
    (checkpoint,) = store.glob("dledger-*/checkpoint")
    checkpoint.write_text(f"committedIndex={committed - 7}\nendIndex={committed}\n")
    archive(store, tmp_path / "a")
    found = Counter(read_archive(tmp_path / "a").column("log_index").to_pylist())
    assert max(found) == committed - 7
    assert set(found.values()) == {1}
    checkpoint.unlink()
    with pytest.raises(StoreUsageError, match="how far its log is committed"):
        archive(store, tmp_path / "b")
    assert read_manifest(tmp_path / "b").files == ()
