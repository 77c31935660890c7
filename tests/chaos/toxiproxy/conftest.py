"""Each test runs against the official server, where it is there, and against ours."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from chaos.toxiproxy import official, own
from chaos.toxiproxy.client import PlainTransport, Proxy, Toxiproxy

from .talk import Echo


@pytest.fixture(scope="module", params=["ours", "official"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "ours":
        with own.running(seed=1) as found:
            yield found
        return
    program = official.find()
    if program is None and os.environ.get("CI") == "true" and official.go() is not None:
        program = official.build()
    if program is None:
        pytest.skip("not here: the official toxiproxy server is not built; that needs Go")
    with official.running(program) as found:
        yield found


@pytest.fixture
def toxiproxy(url: str) -> Iterator[Toxiproxy]:
    found = Toxiproxy(url, PlainTransport(url))
    yield found
    for name in found.proxies():
        found.delete(name)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(toxiproxy: Toxiproxy, echo: Echo) -> Proxy:
    return toxiproxy.create("echo", echo.address)
