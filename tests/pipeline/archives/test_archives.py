"""Archives as batches, and as a stream by numbers of files; here and in a store of objects."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.archives.reading import (
    ArchiveOptions,
    archive_options,
    batches,
    from_offset,
    manifest,
    to_offset,
    wanted,
)
from pipeline.jobs.archive import COLUMNS, archive
from pipeline.jobs.manifest import ArchiveError
from pipeline.options import OptionError

from ..jobs.stores import put
from ..s3 import bucket, upload


def rows(options: ArchiveOptions, first: int = 0, end: int | None = None) -> list[dict[str, Any]]:
    found = manifest(options)
    files = wanted(options, found, first, len(found.files) if end is None else end)
    return [row for f in files for batch in batches(options, f.path) for row in batch.to_pylist()]


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["value"]) for row in found)


def test_a_stream_is_the_files_that_came(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "root"
    put(store, range(60))
    archive(store, root)
    options = archive_options({"path": str(root)})
    first = to_offset(manifest(options), len(manifest(options).files))
    before = manifest(options)
    put(store, range(60, 100))
    archive(store, root)
    after = manifest(options)
    assert from_offset(after, first) == len(before.files)
    assert numbers(rows(options, 0, len(before.files))) == list(range(60))
    assert numbers(rows(options, len(before.files))) == list(range(60, 100))
    assert list(rows(options)[0]) == list(COLUMNS)
    some = archive_options({"path": f"file://{root}", "topic": "odd", "columns": "value,queue"})
    assert numbers(rows(some)) == list(range(1, 100, 2))
    assert list(rows(some)[0]) == ["value", "queue"]


def test_an_archive_in_a_store_of_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_address: Callable[[], str]
) -> None:
    put(tmp_path / "store", range(60))
    archive(tmp_path / "store", tmp_path / "root")
    with bucket(monkeypatch, new_address()) as suffix:
        there = archive_options({"path": upload(tmp_path / "root", "archive", suffix)})
        assert rows(there) == rows(archive_options({"path": str(tmp_path / "root")}))
        with pytest.raises(ArchiveError, match="s3://logs/other is no archive; give the ROOT"):
            manifest(archive_options({"path": f"s3://logs/other{suffix}"}))


def test_another_archive_in_its_place_is_noticed(tmp_path: Path) -> None:
    put(tmp_path / "store", range(10))
    root = tmp_path / "root"
    options = archive_options({"path": str(root)})
    archive(tmp_path / "store", root)
    offset = to_offset(manifest(options), 1)
    assert from_offset(manifest(options), offset) == 1
    with pytest.raises(ArchiveError, match="another one than the query began with"):
        from_offset(manifest(options), {**offset, "files": 1000})
    shutil.rmtree(root)
    archive(tmp_path / "store", root)
    with pytest.raises(ArchiveError, match="start a query with a new checkpointLocation"):
        from_offset(manifest(options), offset)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "has no path; give"),
        ({"path": "a", "colums": "value"}, "did you mean columns"),
        ({"path": "a", "columns": "key"}, "an archive has no column 'key'; use one of topic"),
        ({"path": "a", "maxFilesPerTrigger": "0"}, "give a whole number above 0"),
        ({"path": "a", "maxFilesPerTrigger": "x"}, "give a whole number above 0"),
    ],
)
def test_options_that_cannot_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        archive_options(given)
