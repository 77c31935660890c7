"""Compaction: the same rows, one file a partition; a killed job changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.jobs.archive import archive, files_of, read_archive, verify
from pipeline.jobs.compact import compact
from pipeline.jobs.manifest import NAME, ArchiveError, ArchiveFile, read_manifest
from pipeline.jobs.workers import Processes

from .stores import put
from .test_archive import SMALL, bodies

PARTITIONS = 6  # of two topics with three queues, in one day


def grown(tmp_path: Path, *ends: int) -> Path:
    """An archive that jobs have added to, one up to each end."""
    root, begin = tmp_path / "archive", 0
    for end in ends:
        put(tmp_path / "store", range(begin, end))
        archive(tmp_path / "store", root, options=SMALL)
        begin = end
    return root


def days(files: Iterable[ArchiveFile]) -> set[tuple[str, str, int]]:
    return {(file.topic, file.date, file.queue) for file in files}


def test_one_file_a_partition_with_the_rows_in_order(tmp_path: Path) -> None:
    root, target = grown(tmp_path, 100, 150, 160), tmp_path / "t"
    before = sorted(root.rglob("*"))
    done = compact(root, target, workers=Processes(2))
    files = files_of(target)
    assert done.files == len(files) == len(days(files)) == len(days(files_of(root)))
    assert (done.rows, done.files_read) == (160, len(files_of(root)))
    assert done.files < done.files_read
    assert verify(target) == 160
    assert sorted(root.rglob("*")) == before, "the source is only read"
    place = ("topic", "queue", "offset")
    in_order = [(name, "ascending") for name in place]
    assert read_archive(target).sort_by(in_order) == read_archive(root).sort_by(in_order)
    for file in files:
        assert file.ranges == ((0, file.rows - 1),)
        found = read_archive(target, file.topic).column("offset").to_pylist()
        assert found == [n for each in files if each.topic == file.topic for n in range(each.rows)]


def test_partitions_that_grew_are_made_again(tmp_path: Path) -> None:
    root, target = grown(tmp_path, 60), tmp_path / "t"
    compact(root, target)
    first = read_manifest(target)
    assert compact(root, target).files == 0
    assert read_manifest(target) == first, "nothing came, nothing changes"
    put(tmp_path / "store", [60])  # an even number, in queue 0
    archive(tmp_path / "store", root, options=SMALL)
    done = compact(root, target)
    after = read_manifest(target)
    assert (done.files, done.generation) == (1, 2)
    assert len(set(after.files) & set(first.files)) == len(first.files) - 1
    assert bodies(target) == list(range(61))
    assert verify(target) == 61
    assert after.identity != first.identity, "a stream that follows it must not go on"
    assert {str(p.relative_to(target)) for p in target.glob("topic=*/**/*.parquet")} == {
        file.path for file in after.files
    }


def test_a_new_partition_alone_is_added_for_streams_too(tmp_path: Path) -> None:
    root, target = grown(tmp_path, 2), tmp_path / "t"  # queue 0 of even and queue 1 of odd
    compact(root, target)
    first = read_manifest(target)
    put(tmp_path / "store", [2])  # queue 2 of even
    archive(tmp_path / "store", root, options=SMALL)
    compact(root, target)
    after = read_manifest(target)
    assert (after.identity, after.files[:2]) == (first.identity, first.files)
    assert bodies(target) == [0, 1, 2]


def test_large_partitions_keep_several_files(tmp_path: Path) -> None:
    root, target = grown(tmp_path, 60, 120, 180), tmp_path / "t"
    largest = max(file.size_bytes for file in files_of(root))
    done = compact(root, target, file_bytes=2 * largest)
    assert PARTITIONS < done.files < done.files_read
    assert verify(target) == 180


def test_a_job_killed_anywhere_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    root, target = grown(tmp_path, 30), tmp_path / "t"
    compact(root, target)
    before = (target / NAME).read_bytes()
    put(tmp_path / "store", range(30, 60))
    archive(tmp_path / "store", root, options=SMALL)
    steps: list[str] = []
    compact(root, tmp_path / "other", step=steps.append)
    assert len(steps) > 2 * PARTITIONS
    for number in range(len(steps)):
        left = iter(range(number))

        def step(_: str, left: Iterable[int] = left) -> None:
            if next(iter(left), None) is None:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            compact(root, target, step=step)
        if steps[number] == "sync root":
            break  # the new manifest is there
        assert (target / NAME).read_bytes() == before
        assert verify(target) == 30
    assert compact(root, target).files == 0
    assert verify(target) == 60


def test_what_is_damaged_or_of_another_archive_is_refused(tmp_path: Path) -> None:
    root, target = grown(tmp_path, 30), tmp_path / "t"
    with pytest.raises(ArchiveError, match="into itself; name a new folder"):
        compact(root, root)
    with pytest.raises(ArchiveError, match="is no archive; give the ROOT"):
        compact(tmp_path / "nothing", target)
    compact(root, target)
    put(tmp_path / "other", range(10))
    archive(tmp_path / "other", tmp_path / "less")
    with pytest.raises(ArchiveError, match="that the source lacks"):
        compact(tmp_path / "less", target)
    (path, *_) = (root / file.path for file in files_of(root))
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ArchiveError, match="not the file that was archived"):
        compact(root, tmp_path / "u")
    assert read_manifest(tmp_path / "u").files == ()
