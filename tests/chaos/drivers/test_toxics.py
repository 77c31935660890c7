"""Every toxic's proof, on servers that stand in for nodes: seen when it is set, and only then."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.drivers import toxics
from chaos.drivers.stage import Stage
from chaos.live.link_proxy import LinkProxy
from chaos.live.toxic_arena import ToxicArena
from chaos.live.toxic_links import OFFICIAL, OURS, ToxicLinks, serving
from chaos.toxiproxy import official
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame, response

NODES = ("n0", "n1")
TALK_SECONDS = 0.02


class Node:
    """Answers requests as a node's client port does; ends a connection that speaks no frames."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._talks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)
        decoder = FrameDecoder()
        with contextlib.suppress(Exception):
            while data := await reader.read(1 << 16):
                for request in decoder.feed(data):
                    writer.write(encode_frame(response(request, body=bytes(1500))))
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Until the last connection has ended, which is its other side's to end."""
        host, _, port = self.address.rpartition(":")
        async with await asyncio.start_server(self.serve, host, int(port)):
            yield
        await asyncio.gather(*self._talks)


async def talk(link: Any) -> None:
    """What nodes and clients do all the time: requests, and a new connection after each end."""
    host, _, port = link.listen.rpartition(":")
    while True:  # until it is cancelled
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                while not reader.at_eof():
                    writer.write(encode_frame(Frame(1, opaque=1)))
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(TALK_SECONDS):
                            await reader.read(1 << 16)
                    await asyncio.sleep(TALK_SECONDS)
        await asyncio.sleep(TALK_SECONDS)


@contextlib.asynccontextmanager
async def arena(host: str, own_one: bool) -> AsyncIterator[ToxicArena]:
    """Two such nodes with every kind of link between them, and talk on all of them."""
    async with contextlib.AsyncExitStack() as stack:
        links = {}
        ports = itertools.count(7001)
        for name in NODES:
            server = Node(f"{host}:{next(ports)}")
            await stack.enter_async_context(server.running())
            for kind in ("peer", "forward", "client"):
                source = "client" if kind == "client" else next(n for n in NODES if n != name)
                link = LinkProxy(source, name, f"{host}:{next(ports)}", server.address)
                links[f"{kind} {source}>{name}"] = link
        made = object.__new__(ToxicArena)
        made.toxic = ToxicLinks(links)
        made.cluster = SimpleNamespace(brokers=NODES)  # type: ignore[assignment]
        made.statuses = no_statuses  # type: ignore[method-assign]
        url, server_name = stack.enter_context(serving(own_one=own_one))
        await asyncio.to_thread(made.toxic.open, url, server_name)
        talks = [asyncio.create_task(talk(link)) for link in made.toxic.links]
        try:
            await asyncio.sleep(5 * TALK_SECONDS)
            yield made
        finally:
            for one in talks:
                one.cancel()
            await asyncio.gather(*talks, return_exceptions=True)
            await asyncio.to_thread(made.toxic.close)


async def no_statuses() -> dict[str, dict[str, Any] | None]:
    return {}


async def seen(host: str, kind: str, *, own_one: bool) -> str:
    async with arena(host, own_one) as made:
        stage = Stage(made, ["n0"], 0.4, Random(3))
        return await toxics.FAULTS[kind](stage)


KINDS = [kind for kind in toxics.FAULTS if not kind.startswith("old-leader")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("server", [OURS, OFFICIAL])
def test_a_toxic_is_seen(free_address: str, kind: str, server: str) -> None:
    if server == OFFICIAL and official.find() is None:
        pytest.skip("not here: the official toxiproxy server is not built; that needs Go")
    assert server in asyncio.run(seen(free_address, kind, own_one=server == OURS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_toxic_that_was_never_set_is_not_seen(
    free_address: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object, **__: object) -> None:
        """It is lost on its way."""

    monkeypatch.setattr(ToxicLinks, "add", nothing)
    monkeypatch.setattr(ToxicLinks, "down", nothing)
    monkeypatch.setattr(toxics, "EFFECT_SECONDS_MAX", 0.3)
    assert asyncio.run(seen(free_address, kind, own_one=True)) == ""
