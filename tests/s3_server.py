"""A store that speaks S3, on this machine: moto's server, in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch, host: str) -> Iterator[str]:
    """Its "host:port", for clients that take their keys from the environment; without buckets."""
    server = pytest.importorskip("moto.server", reason="needs moto, from the group dev")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    running = server.ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    running.start()
    try:
        address, port = running.get_host_and_port()
        yield f"{address}:{port}"
    finally:
        running.stop()
