"""Raw logs behind a URL are read as those of this machine's disk are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from commitlog.errors import StoreUsageError
from pipeline.archives.reading import archive_options, manifest
from pipeline.frames.batch import COLUMNS
from pipeline.jobs.commands import _named
from pipeline.jobs.manifest import ArchiveError
from pipeline.options import LogOptions, OptionError, log_at, log_options
from pipeline.places import REQUEST_BYTES, opened
from pipeline.places import read as read_place
from pipeline.rawlog import read
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches

from .jobs.stores import DLEDGER, GOLDEN, put
from .s3 import bucket, upload

PLAIN = GOLDEN / "java-store" / "normal"


def _rows(options: LogOptions) -> list[dict[str, Any]]:
    return [
        row
        for piece in plan(options)
        for batch in batches(options, piece)
        for row in batch.to_pylist()
    ]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, new_address: Callable[[], str]) -> Any:
    with bucket(monkeypatch, new_address()) as suffix:
        yield suffix


def test_a_log_in_a_store_of_objects(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the log's index and without one; pieces smaller and larger than a request."""
    put(tmp_path / "plain", range(300))
    for number, store in enumerate((DLEDGER, PLAIN, tmp_path / "plain")):
        url = upload(store, f"n{number}", s3)
        for piece_bytes in ("20000", "100000000"):
            given = {"bytesPerPartition": piece_bytes}
            here = _rows(log_options({"path": str(store), **given}))
            assert here
            assert _rows(log_options({"path": url, **given})) == here
    assert REQUEST_BYTES > 1 << 14
    monkeypatch.setattr("pipeline.places.REQUEST_BYTES", 1000)
    assert _rows(log_options({"path": url.replace("s3://", "s3a://")})) == here


def test_a_store_of_objects_begins_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_address: Callable[[], str]
) -> None:
    """Servers of one process share what they keep; tests must not read each other's objects."""
    (tmp_path / "file").write_text("of the first")
    with bucket(monkeypatch, new_address()) as suffix:
        read_place(upload(tmp_path, "n0", suffix), "file")
    with bucket(monkeypatch, new_address()) as suffix, pytest.raises(FileNotFoundError):
        read_place(f"s3://logs/n0{suffix}", "file")


def test_only_the_piece_is_fetched(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies outside of a piece cannot be read: the copy has a hole there."""
    monkeypatch.setattr(read, "RECORD_BYTES_MAX", 1 << 12)
    put(tmp_path / "plain", range(300))
    url = upload(tmp_path / "plain", "n", s3)
    options = log_options({"path": url, "bytesPerPartition": "2048"})
    pieces = plan(options)
    assert len(pieces) > 5
    piece = pieces[3]
    with read.mapped(piece.url, piece.path, piece.size, piece.begin, piece.end) as data:
        assert any(data[piece.begin : piece.end])
        assert not any(data[: piece.begin])
        assert not any(data[piece.end :])
    found = [
        row for piece in pieces for batch in batches(options, piece) for row in batch.to_pylist()
    ]
    assert sorted(int(row["value"]) for row in found) == list(range(300))


def test_what_cannot_be_opened_is_named(s3: str) -> None:
    with pytest.raises(StoreUsageError, match="is no store"):
        plan(log_options({"path": f"s3://logs/nothing{s3}"}))
    with pytest.raises(OptionError, match=r"ftp://any/n0 cannot be opened \(.*\); correct the URL"):
        plan(log_options({"path": "ftp://any/n0"}))


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAKEY:TOPSECRET@logs/n1?nonsense=1",
        "s3://AKIAKEY:TOP/SECRET@logs/n1?nonsense=1",
        "s3://AKIAKEY:TOP@SECRET@logs/n1?key=TOPSECRET",
        "ftp://AKIAKEY:TOPSECRET@logs/n1",
    ],
)
def test_no_text_has_the_keys_of_a_url(url: str) -> None:
    with pytest.raises(OptionError) as refused:
        opened(url)
    said = str(refused.value) + log_at(url).where
    assert not [word for word in ("AKIAKEY", "TOP", "SECRET") if word in said], said
    assert "logs/n1" in said


def test_a_place_that_is_no_archive_is_named_without_keys(s3: str) -> None:
    options = archive_options({"path": f"s3://key:secret@logs/nothing{s3}"})
    with pytest.raises(ArchiveError, match=r"^s3://logs/nothing is no archive"):
        manifest(options)


@pytest.mark.parametrize("keys", ["", "AKIAKEY:TOPSECRET@"])
def test_a_place_that_cannot_be_read_is_named_with_one_thing_to_try(
    keys: str, tmp_path: Path
) -> None:
    """No server is there, and a file is no folder."""
    url = f"s3://{keys}logs/n1?endpoint_override=127.0.0.1:1&scheme=http"
    file = tmp_path / "file"
    file.touch()
    said = r"cannot be read \(.+\); correct the path, or let this account read it$"
    for place in (url, str(file)):
        with pytest.raises(OptionError, match=said) as refused:
            plan(log_options({"path": place}))
        assert "TOPSECRET" not in str(refused.value)
    with pytest.raises(OptionError, match=said):
        manifest(archive_options({"path": url}))


def test_stores_of_an_audit_are_named_without_keys() -> None:
    stores = ("s3://KEY:A@logs/n1?x=1", "s3://KEY:A@logs/n1?x=2", "/data/n2", "/data/n2")
    assert list(_named(stores)) == ["s3://logs/n1 (1)", "s3://logs/n1 (2)", "/data/n2"]


def test_a_path_of_this_machine_is_no_url() -> None:
    for text in (str(DLEDGER), f"file://{DLEDGER}"):
        options = log_options({"path": text})
        assert (options.url, options.path) == ("", DLEDGER)
    assert len(COLUMNS) > 10
