"""A store that speaks S3, on this machine: moto's server, in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as arrow
import pytest

BUCKET = "logs"


@contextlib.contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch, host: str) -> Iterator[str]:
    """The end of a URL: `s3://logs/folder` + this is read from the server."""
    server = pytest.importorskip("moto.server", reason="needs moto, from the group dev")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    running = server.ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    running.start()
    try:
        address, port = running.get_host_and_port()
        suffix = f"?endpoint_override={address}:{port}&scheme=http&region=us-east-1"
        arrow.FileSystem.from_uri(f"s3://{suffix}&allow_bucket_creation=true")[0].create_dir(BUCKET)
        yield suffix
    finally:
        running.stop()


def upload(folder: Path, name: str, suffix: str) -> str:
    """Copies a folder into the bucket; the URL of the copy."""
    found, _ = arrow.FileSystem.from_uri(f"s3://{BUCKET}{suffix}")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = f"{BUCKET}/{name}/{path.relative_to(folder)}"
            with found.open_output_stream(key, compression=None) as out:
                out.write(path.read_bytes())
    return f"s3://{BUCKET}/{name}{suffix}"
