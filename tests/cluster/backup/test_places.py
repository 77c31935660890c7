"""Both kinds of places keep what is written, and refuse what another command has changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from cluster.backup.errors import BackupBusy, BackupError, PlaceFailed
from cluster.backup.places import FolderPlace, Place, place_of
from tests.s3_server import s3_server


@contextlib.contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch, host: str) -> Iterator[str]:
    """The end of `s3://backups/…` URLs."""
    with s3_server(monkeypatch, host) as place:
        import boto3

        endpoint = f"http://{place}"
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="backups")
        yield f"?endpoint={quote(endpoint)}"


@pytest.fixture(params=["folder", "bucket"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new_address: Callable[[], str],
) -> Iterator[Place]:
    """An empty one of each kind."""
    if request.param == "folder":
        yield FolderPlace(tmp_path / "backup")
    else:
        with bucket(monkeypatch, new_address()) as end:
            yield place_of(f"s3://backups/prod{end}")


def test_a_place_keeps_what_is_written_and_refuses_stale_changes(place: Place) -> None:
    """One story, since a bucket's server takes a second to start."""
    assert place.folders() == []
    with pytest.raises(FileNotFoundError):
        place.read("group/MANIFEST.json")
    place.write("group/log/1-2", b"one")
    place.write("group/log/1-2", b"two")
    assert place.read("group/log/1-2") == b"two"
    place.replace("group/MANIFEST.json", b"first", None)
    with pytest.raises(BackupBusy):
        place.replace("group/MANIFEST.json", b"also first", None)
    place.replace("group/MANIFEST.json", b"second", b"first")
    with pytest.raises(BackupBusy):
        place.replace("group/MANIFEST.json", b"late", b"first")
    assert place.read("group/MANIFEST.json") == b"second"
    place.write("broker-b/log/1-2", b"other group")
    assert place.folders() == ["broker-b", "group"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://host/folder", "is no place"),
        ("s3:///prefix", "is no place"),
        ("s3://bucket/x?endpont=http://h", "endpont is no option"),
    ],
)
def test_url_that_names_no_place_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(BackupError, match=said):
        place_of(text)


def test_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3", reason="needs boto3, from the extra backup")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(PlaceFailed, match="check the endpoint"):
        place_of("s3://bucket/prod?endpoint=http://127.0.0.1:9").read("group/MANIFEST.json")
