"""A bucket of a store that speaks S3, by pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as arrow
import pytest

from tests.s3_server import s3_server

BUCKET = "logs"


@contextlib.contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch, host: str) -> Iterator[str]:
    """The end of a URL: `s3://logs/folder` + this is read from the server."""
    with s3_server(monkeypatch, host) as place:
        suffix = f"?endpoint_override={place}&scheme=http&region=us-east-1"
        arrow.FileSystem.from_uri(f"s3://{suffix}&allow_bucket_creation=true")[0].create_dir(BUCKET)
        yield suffix


def upload(folder: Path, name: str, suffix: str) -> str:
    """Copies a folder into the bucket; the URL of the copy."""
    found, _ = arrow.FileSystem.from_uri(f"s3://{BUCKET}{suffix}")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = f"{BUCKET}/{name}/{path.relative_to(folder)}"
            with found.open_output_stream(key, compression=None) as out:
                out.write(path.read_bytes())
    return f"s3://{BUCKET}/{name}{suffix}"
