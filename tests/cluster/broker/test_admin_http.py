"""The admin HTTP answers who may ask, and no page of the internet by way of a person's browser."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cluster.broker.admin import admin_connections
from cluster.broker.admin.admin_http import AdminServer, _is_own
from cluster.settings.node import AdminConfig
from dledger.runtime.owned import Owned
from tests.waiting import limit

PATHS = ("/healthz", "/readyz", "/metrics", "/api/v1/status")
PORT = 8080
FOREIGN_HOSTS = ("evil.example", f"evil.example:{PORT}", "10.0.0.1", "localhost.evil.example", "")
FOREIGN_ORIGINS = (
    *("http://evil.example", "https://evil.example:8443", "null", "http://10.0.0.1", "file://"),
    *("http://localhost.evil.example", "http://127.0.0.1.evil.example"),
)


class Source:
    registry = CollectorRegistry()
    opening = ""

    async def look(self) -> None:
        pass

    def status(self) -> dict[str, Any]:
        assert not self.opening, "there is nothing to look at"
        return {"role": "leader"}

    def not_open(self) -> str:
        return self.opening

    def not_healthy(self) -> str:
        return str(self.status().get("failed", ""))

    def not_ready(self) -> str:
        return self.not_healthy()


@asynccontextmanager
async def serving(
    host: str, token: str | None = None, opening: str = ""
) -> AsyncIterator[Callable[..., Any]]:
    died: list[BaseException] = []
    source = Source()
    source.opening = opening
    server = AdminServer(source, host, PORT, token=token, owned=Owned(died.append))
    await server.start()

    async def get(path: str, **headers: str) -> int:
        """Its status; `Host` as given, or left out where it is None."""
        reader, writer = await asyncio.open_connection(host, PORT)
        said = {"Host": f"{host}:{PORT}", "Connection": "close", **headers}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = await reader.read()
        writer.close()
        assert b"leader" not in answer or b" 200 " in answer.splitlines()[0]
        return int(answer.split()[1])

    try:
        yield get
    finally:
        await server.close()
        assert not died


async def test_it_is_asked_for_by_its_own_address(new_address: Callable[[], str]) -> None:
    host = new_address()
    async with serving(host) as get:
        for path in PATHS:
            assert await get(path) == 200
            for good in (host, "localhost", f"localhost:{PORT}", "127.0.0.1:9999", "[::1]:80"):
                assert await get(path, Host=good) == 200, good
                assert await get(path, Origin=f"http://{good}") == 200, good
            for bad in FOREIGN_HOSTS:
                assert await get(path, Host=bad) in (400, 403), bad
            for bad in FOREIGN_ORIGINS:
                assert await get(path, Origin=bad) == 403, bad


async def test_bytes_that_are_no_request_fill_no_log(
    new_address: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(new_address()) as get:
        for number in range(100):
            assert await get(f"/\x01{number}") == 400
        assert await get("/healthz") == 200
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert 1 <= len(told) <= 8
    assert not any(record.exc_info for record in told)
    assert all(len(record.getMessage()) < 200 for record in told)


async def test_a_node_that_is_opened_again_is_alive_and_not_ready(
    new_address: Callable[[], str],
) -> None:
    """Its leader sent a state: for a moment there is no replica to tell anything of."""
    async with serving(new_address(), opening="it loads") as get:
        found = {path: await get(path) for path in PATHS}
    assert found == dict.fromkeys(PATHS, 503) | {"/healthz": 200}


async def test_where_a_token_is_set_everybody_shows_it(new_address: Callable[[], str]) -> None:
    async with serving(new_address(), "a long enough token") as get:
        for path in (*PATHS, "/nothing"):
            for wrong in ("", "Bearer", "Bearer wrong", "a long enough token", "Basic YTpi"):
                assert await get(path, Authorization=wrong) == 401
            assert await get(path) == 401
        good = {"Authorization": "Bearer a long enough token"}
        for path in PATHS:
            assert await get(path, **good) == 200
            assert await get(path, Origin="http://evil.example", **good) == 403


@pytest.mark.parametrize(
    ("asked", "listens", "own"),
    [
        ("10.0.0.1:80", "10.0.0.1", True),
        ("10.0.0.2:80", "10.0.0.1", False),
        ("127.0.0.1", "10.0.0.1", False),
        ("192.0.2.1:80", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("node-1:8080", "node-1", True),
        ("[::1]:8080", "::1", True),
        ("[2001:db8::1]", "::1", False),
    ],
)
def test_which_names_are_its_own(asked: str, listens: str, own: bool) -> None:
    assert _is_own(asked, listens) == own


@pytest.mark.parametrize(
    ("listen", "token", "wrong"),
    [
        (None, None, None),
        (("127.0.0.2", 8080), None, None),
        (("10.0.0.1", 8080), "a long enough token", None),
        (("10.0.0.1", 8080), None, "token is not set, so there is no access control"),
        (("0.0.0.0", 8080), None, "beyond this machine"),
        (("127.evil.example", 8080), None, "beyond this machine"),
        (("10.0.0.1", 8080), "short", "token has 5 characters"),
        (("10.0.0.1", 8080), "please change me", "still the example's text"),
        (("127.0.0.1", 8080), "a long enough token", "nobody is asked for it"),
    ],
)
def test_an_address_beyond_this_machine_needs_a_token(
    listen: Any, token: str | None, wrong: str | None
) -> None:
    config = AdminConfig(listen=listen, token=token)
    assert "long enough" not in repr(config)
    if wrong is None:
        config.validate()
    else:
        with pytest.raises(ValueError, match=wrong):
            config.validate()


# ---- who only takes connections, or time, or room ------------------------------------------------

HALF = b"GET /readyz HTTP/1.1\r\nHost: a\r\n"


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What came before the server closed."""
    try:
        return await asyncio.wait_for(reader.read(), limit(20))
    except ConnectionResetError:
        return b""


async def test_200_half_open_connections_starve_nobody(new_address: Callable[[], str]) -> None:
    host = new_address()
    async with serving(host) as get:
        held = []
        for number in range(200):
            reader, writer = await asyncio.open_connection(host, PORT)
            writer.write(HALF[: number % len(HALF)])
            held.append((reader, writer))
            if number % 20 == 0:
                assert await get("/readyz") == 200
        assert await get("/readyz") == 200
        early = held[: -2 * admin_connections.CONNECTIONS_MAX]
        assert [await closed(reader) for reader, _ in early] == [b""] * len(early)
        for _, writer in held:
            writer.close()


async def test_a_monitor_keeps_its_connection_beside_those_that_send_nothing(
    new_address: Callable[[], str],
) -> None:
    host = new_address()
    async with serving(host):
        reader, writer = await asyncio.open_connection(host, PORT)
        others = []
        for _ in range(100):
            others.append(await asyncio.open_connection(host, PORT))
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"ready\n"), limit(20))
            assert head.startswith(b"HTTP/1.1 200")
        writer.close()
        for _, other in others:
            other.close()


async def test_half_a_request_has_its_time(
    new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_connections, "REQUEST_SECONDS_MAX", 0.2)
    host = new_address()
    async with serving(host) as get:
        reader, writer = await asyncio.open_connection(host, PORT)
        writer.write(HALF)
        assert await closed(reader) == b""
        assert await get("/readyz") == 200
        writer.close()


@pytest.mark.parametrize(
    "flood",
    [
        b"GET /readyz HTTP/1.1\r\nX: " + b"x" * (1 << 20),
        b"GET /readyz HTTP/1.1\r\n" + b"X-Header: y\r\n" * (1 << 16),
        b"GET /" + b"x" * (1 << 20),
        b"POST /readyz HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n" + b"x" * (1 << 22),
        b"POST /readyz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1000\r\n" * (1 << 18),
    ],
    ids=["header", "headers", "path", "body", "chunks"],
)
async def test_who_sends_much_is_let_go(new_address: Callable[[], str], flood: bytes) -> None:
    host = new_address()
    async with serving(host) as get:
        reader, writer = await asyncio.open_connection(host, PORT)
        writer.write(flood)
        answer = await closed(reader)
        assert not answer or answer.split()[1] in (b"400", b"403", b"405")
        assert await get("/readyz") == 200
        writer.close()
