"""A store that speaks S3, on this machine: moto's server, in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from tests.waiting import limit


@contextlib.contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch, host: str) -> Iterator[str]:
    """Its "host:port", for clients that take their keys from the environment; without buckets.

    All servers of a process share what moto keeps, so what an earlier one was given is removed.
    """
    server = pytest.importorskip("moto.server", reason="needs moto, from the group dev")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    running = server.ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    running.start()
    try:
        address, port = running.get_host_and_port()
        reset = Request(f"http://{address}:{port}/moto-api/reset", method="POST")
        urlopen(reset, timeout=limit(60)).close()
        yield f"{address}:{port}"
    finally:
        running.stop()
