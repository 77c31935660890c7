"""A proxied link behaves as it says, in each direction by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from chaos.live.link_proxy import LinkMesh, LinkProxy, Mode
from chaos.live.shape import Shape
from tests.waiting import eventually, within

pytestmark = pytest.mark.virtual_time

SILENCE_SECONDS = 60.0


class Echo:
    """A server that answers each line, and remembers what it got."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.connections = self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                self.got.append(line)
                writer.write(b"re:" + line)
                await writer.drain()
        self.ended += 1
        writer.close()


@pytest.fixture
async def link(free_address: str) -> AsyncIterator[tuple[LinkProxy, Echo]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, free_address, 7001)
    proxy = LinkProxy("a", "b", f"{free_address}:7002", f"{free_address}:7001")
    async with LinkMesh({"a>b": proxy}):
        yield proxy, echo
    server.close()


_writers: list[asyncio.StreamWriter] = []


@pytest.fixture(autouse=True)
async def close_what_was_dialled() -> AsyncIterator[None]:
    yield
    for writer in _writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    _writers.clear()


async def dial(proxy: LinkProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = proxy.listen.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    _writers.append(writer)
    return reader, writer


async def silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.readline(), SILENCE_SECONDS)
    except TimeoutError:
        return True
    return False


async def test_bytes_pass_both_ways(link: tuple[LinkProxy, Echo]) -> None:
    proxy, echo = link
    reader, writer = await dial(proxy)
    writer.write(b"one\n")
    assert await reader.readline() == b"re:one\n"
    assert echo.got == [b"one\n"]


async def test_frozen_bytes_arrive_in_order_after_the_heal(link: tuple[LinkProxy, Echo]) -> None:
    proxy, echo = link
    reader, writer = await dial(proxy)
    proxy.freeze(backward=False)
    writer.write(b"one\n")
    writer.write(b"two\n")
    assert await silent(reader)
    assert echo.got == []
    proxy.heal()
    assert [await reader.readline() for _ in range(2)] == [b"re:one\n", b"re:two\n"]


async def test_one_way_loss_reaches_the_target_but_not_back(link: tuple[LinkProxy, Echo]) -> None:
    proxy, echo = link
    reader, writer = await dial(proxy)
    proxy.drop(forward=False)
    writer.write(b"one\n")
    assert await silent(reader)
    assert echo.got == [b"one\n"]


async def test_a_connection_that_lost_bytes_is_closed_at_the_heal(
    link: tuple[LinkProxy, Echo],
) -> None:
    proxy, echo = link
    reader, writer = await dial(proxy)
    proxy.drop()
    writer.write(b"lost\n")
    assert await silent(reader)
    proxy.heal()
    with contextlib.suppress(ConnectionError):
        assert await reader.readline() == b""
    assert echo.got == []
    reader, writer = await dial(proxy)
    writer.write(b"again\n")
    assert await reader.readline() == b"re:again\n"


async def test_new_connections_are_accepted_and_swallowed_while_dropping(
    link: tuple[LinkProxy, Echo],
) -> None:
    proxy, echo = link
    proxy.drop()
    reader, writer = await dial(proxy)
    writer.write(b"one\n")
    assert await silent(reader)
    assert echo.got == []


async def test_cut_closes_and_refuses_until_healed(link: tuple[LinkProxy, Echo]) -> None:
    proxy, echo = link
    reader, writer = await dial(proxy)
    writer.write(b"one\n")
    assert await reader.readline() == b"re:one\n"
    proxy.cut()
    with contextlib.suppress(ConnectionError):
        assert await reader.readline() == b""
    again, _ = await dial(proxy)
    with contextlib.suppress(ConnectionError):
        assert await again.readline() == b""
    assert echo.connections == 1
    proxy.heal()
    reader, writer = await dial(proxy)
    writer.write(b"two\n")
    assert await reader.readline() == b"re:two\n"


async def test_a_target_that_is_down_closes_the_connection(free_address: str) -> None:
    proxy = LinkProxy("a", "b", f"{free_address}:7002", f"{free_address}:7003")
    async with LinkMesh({"a>b": proxy}):
        reader, _ = await dial(proxy)
        with contextlib.suppress(ConnectionError):
            assert await reader.readline() == b""


async def test_one_side_ends_before_the_other(link: tuple[LinkProxy, Echo]) -> None:
    proxy, echo = link
    proxy.close_delay = 2 * SILENCE_SECONDS
    proxy.shape(Shape(cut_after=6, cut_politely=True), backward=False)
    reader, writer = await dial(proxy)
    writer.write(b"one\ntwo\n")
    assert await reader.readline() == b"re:one\n"
    assert await silent(reader), "the source may still listen"
    assert (echo.got, echo.ended) == ([b"one\n", b"tw"], 1), "the target has heard the end"
    assert await reader.read() == b"re:tw", "what it said after that, then the end"
    assert proxy.effects["half-closed"] == 1


def test_a_link_that_is_closed_while_it_dials_ends_the_connection(free_address: str) -> None:
    asyncio.run(closed_while_it_dials(free_address))  # of real sockets, as its hole is


async def closed_while_it_dials(free_address: str) -> None:
    hole = LinkProxy("b", "c", f"{free_address}:7001", f"{free_address}:7000")
    proxy = LinkProxy("a", "b", f"{free_address}:7002", hole.listen)
    async with LinkMesh({"b>c": hole}):
        await hole.blackhole_syn()
        async with LinkMesh({"a>b": proxy}):
            reader, writer = await dial(proxy)
            await eventually(lambda: proxy._tasks, "the link dials")
        with contextlib.suppress(ConnectionError):
            assert await within(reader.readline(), "the end") == b""
        writer.close()


async def test_isolating_a_node_touches_its_links_only(free_address: str) -> None:
    names = ("a", "b", "c")
    links = {
        f"{s}>{t}": LinkProxy(s, t, f"{free_address}:{7100 + 10 * i + j}", f"{free_address}:7001")
        for i, s in enumerate(names)
        for j, t in enumerate(names)
        if s != t
    }
    async with LinkMesh(links) as mesh:
        mesh.isolate("a")
        dropping = {name for name, one in mesh.links.items() if one.forward.mode is Mode.DROP}
        assert dropping == {"a>b", "b>a", "a>c", "c>a"}
        mesh.heal()
        assert all(link.forward.mode is Mode.PASS for link in links.values())
