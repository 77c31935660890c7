"""TLS beside plain frames on one port, told apart by the first byte."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.security import tls
from cluster.security.certificates import Subject, make_all
from cluster.security.tls import FirstByte, TlsLayer, listening, server_context
from dledger.config import TlsMode
from dledger.runtime.complaints import Complaints
from tests.waiting import within

BIG = bytes(range(256)) * 8192


class Echo(asyncio.Protocol):
    """Sends back what it gets; counts what happened to it."""

    made = lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport
        Echo.made += 1

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        Echo.lost += 1


@pytest.fixture
def pem() -> tuple[Path, Path]:
    folder = Path(__file__).parents[2] / "data" / "tls"
    return folder / "server.pem", folder / "server.key"


@contextlib.asynccontextmanager
async def _server(pem: tuple[Path, Path], *, enforced: bool) -> AsyncIterator[int]:
    Echo.made = Echo.lost = 0
    context = server_context(*pem, None)
    complaints = Complaints(logging.getLogger("tls"), lambda: 0.0)
    server = await asyncio.get_running_loop().create_server(
        lambda: FirstByte(Echo, lambda: context, enforced=enforced, complaints=complaints),
        "127.0.0.1",
        0,
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _echo(port: int, data: bytes, context: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(data)
        return await reader.readexactly(len(data))
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


@pytest.mark.parametrize("size", [1, 100, 20_000, len(BIG)])
async def test_both_kinds_on_one_port(pem: tuple[Path, Path], size: int) -> None:
    data = b"\0" + BIG[: size - 1]
    async with _server(pem, enforced=False) as port:
        assert await _echo(port, data, _trusting()) == data
        assert await _echo(port, data, None) == data


async def test_enforced_takes_no_plain_frame(pem: tuple[Path, Path]) -> None:
    async with _server(pem, enforced=True) as port:
        assert await _echo(port, b"\0abc", _trusting()) == b"\0abc"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\x10")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert Echo.made == 1


@pytest.mark.parametrize(
    "garbage", [b"\x16garbage that is no hello", b"\x16\x03\x01\xff\xff" + bytes(70_000), b"GET /"]
)
async def test_garbage_takes_down_its_own_connection_only(
    pem: tuple[Path, Path], garbage: bytes
) -> None:
    async with _server(pem, enforced=False) as port:
        good_reader, good = await asyncio.open_connection("127.0.0.1", port, ssl=_trusting())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            writer.write(garbage)
            await reader.read()
        writer.close()
        good.write(b"still here")
        assert await good_reader.readexactly(10) == b"still here"
        good.close()
        assert Echo.made == 1


@pytest.mark.parametrize("says_goodbye", [True, False])
async def test_the_inner_connection_hears_that_its_client_sends_no_more(
    pem: tuple[Path, Path], says_goodbye: bool
) -> None:
    """It then lets what is buffered be sent (cluster/broker/kernel/net/connection.py)."""
    ended = asyncio.Event()

    class Ends(Echo):
        def eof_received(self) -> None:
            ended.set()

    complaints = Complaints(logging.getLogger("tls"), lambda: 0.0)
    context = server_context(*pem, None)
    layer = TlsLayer(Ends(), context, complaints)
    server = await asyncio.get_running_loop().create_server(lambda: layer, "127.0.0.1", 0)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = _trusting().wrap_bio(incoming, outgoing, server_side=False)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                break
            writer.write(outgoing.read())
            incoming.write(await within(reader.read(65536), "the server's part"))
        if says_goodbye:
            with contextlib.suppress(ssl.SSLError):
                client.unwrap()
        writer.write(outgoing.read())
        if not says_goodbye:
            writer.write_eof()
        await within(ended.wait(), "the word that the client sends no more")
        writer.close()


async def test_a_hello_in_single_bytes(pem: tuple[Path, Path]) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = _trusting().wrap_bio(incoming, outgoing, server_side=False)
    async with _server(pem, enforced=True) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await writer.drain()
                incoming.write(await reader.read(65536))
        client.write(b"hello")
        writer.write(outgoing.read())
        answer = b""
        while len(answer) < 5:
            try:
                answer += client.read(100)
            except ssl.SSLWantReadError:
                incoming.write(await reader.read(65536))
        assert answer == b"hello"
        writer.close()


async def test_who_never_ends_the_handshake_is_cut(
    pem: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS_MAX", 0.1)
    async with _server(pem, enforced=True) as port:
        for begin in (b"", b"\x16\x03\x01"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begin)
            with contextlib.suppress(ConnectionError):
                assert await within(reader.read(), "the end of the connection") == b""
            writer.close()
        assert Echo.made == 0


async def test_new_files_count_from_the_next_connection_on(
    pem: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Written aside and renamed, as tools do; a file that is none is said and changes nothing."""
    subjects = [Subject("n0", ("127.0.0.1",))]
    make_all(tmp_path / "made", subjects)
    files = [shutil.copy(path, tmp_path / path.name) for path in pem]
    made = listening(Echo, TlsMode.ENFORCING, *map(str, files))
    server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def shown() -> bytes:
        return (await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))).encode()

    async with server:
        first = await shown()
        for kind, path in zip(("pem", "key"), files, strict=True):
            shutil.copy(tmp_path / "made" / f"n0.{kind}", tmp_path / "new")
            (tmp_path / "new").rename(path)
        second = await shown()
        assert first != second
        assert (tmp_path / "made" / "n0.pem").read_bytes().startswith(second)
        shutil.copy(__file__, files[0])
        assert await shown() == second
        assert "the certificate read before stays in force" in caplog.text


def test_a_wrong_certificate_is_named(pem: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(ssl.SSLError, match=r"empty\.pem .*cannot be used"):
        server_context(empty, pem[1], None)
    with pytest.raises(OSError):  # noqa: PT011  (the operating system's own words)
        server_context(tmp_path / "gone.pem", pem[1], None)
