"""Every toxic's proof, on servers that stand in for nodes: seen when it is set, and only then.

Those whose proof is a measured delay are measured in the long layer, and here with made delays.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.drivers import toxics
from chaos.drivers.stage import Stage
from chaos.live.link_proxy import LinkProxy
from chaos.live.toxic_arena import ToxicArena
from chaos.live.toxic_links import OFFICIAL, OURS, ToxicLink, ToxicLinks, serving
from chaos.toxiproxy import official
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame, response
from tests.waiting import eventually, limit

NODES = ("n0", "n1")
TALK_SECONDS = 0.02
REQUESTS = 3


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


async def talk(link: ToxicLink, said: Counter[str]) -> None:
    """What nodes and clients do all the time: requests, and a new connection after each end.

    At a pace, or two cores would do nothing else; no test waits for it.
    """
    host, _, port = link.listen.rpartition(":")
    while True:  # until it is cancelled
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                while not reader.at_eof():
                    writer.write(encode_frame(Frame(1, opaque=1)))
                    said[link.name] += 1
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(TALK_SECONDS):
                            await reader.read(1 << 16)
                    await asyncio.sleep(TALK_SECONDS)
        await asyncio.sleep(TALK_SECONDS)


@contextlib.asynccontextmanager
async def arena(host: str, own_one: bool) -> AsyncIterator[tuple[ToxicArena, Counter[str]]]:
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
        said = Counter(dict.fromkeys((link.name for link in made.toxic.links), 0))
        talks = [asyncio.create_task(talk(link, said)) for link in made.toxic.links]
        try:
            await eventually(lambda: min(said.values()) > REQUESTS, "all talk")
            yield made, said
        finally:
            for one in talks:
                one.cancel()
            await asyncio.gather(*talks, return_exceptions=True)
            await asyncio.to_thread(made.toxic.close)


async def no_statuses() -> dict[str, dict[str, Any] | None]:
    return {}


class TalkingStage(Stage):
    """Holds a fault until all have talked meanwhile, and not for a time."""

    said: Counter[str]

    async def hold(self) -> None:
        before = self.said.copy()
        await eventually(
            lambda: all(self.said[name] > before[name] + REQUESTS for name in before), "all talk"
        )


async def seen(host: str, kind: str, *, own_one: bool, seconds: float = 0.1) -> str:
    async with arena(host, own_one) as (made, said):
        stage = TalkingStage(made, ["n0"], seconds, Random(3))
        stage.said = said
        return await toxics.FAULTS[kind](stage)


KINDS = [kind for kind in toxics.FAULTS if not kind.startswith("old-leader")]
MEASURED = ["latency", "bandwidth"]
OTHERS = [kind for kind in KINDS if kind not in MEASURED]
SERVERS = [OURS, OFFICIAL]


def needs(server: str) -> None:
    if server == OFFICIAL and official.find() is None:
        pytest.skip("not here: the official toxiproxy server is not built; that needs Go")


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_toxic_is_seen(free_address: str, kind: str, server: str) -> None:
    needs(server)
    assert server in asyncio.run(seen(free_address, kind, own_one=server == OURS))


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("kind", MEASURED)
@pytest.mark.parametrize("server", SERVERS)
def test_a_delay_is_measured(free_address: str, kind: str, server: str) -> None:
    needs(server)
    told = asyncio.run(seen(free_address, kind, own_one=server == OURS, seconds=0.4))
    assert server in told


@pytest.mark.parametrize("kind", OTHERS)
def test_a_toxic_that_was_never_set_is_not_seen(
    free_address: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_set(monkeypatch)
    assert asyncio.run(seen(free_address, kind, own_one=True)) == ""


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("kind", MEASURED)
def test_a_delay_that_was_never_set_is_not_measured(
    free_address: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_set(monkeypatch)
    assert asyncio.run(seen(free_address, kind, own_one=True)) == ""


@pytest.mark.parametrize("kind", MEASURED)
@pytest.mark.parametrize(
    ("seconds", "is_seen"),
    [
        ({"latency": 1.0, "bandwidth": 1.0, "": 0.001}, True),
        ({"latency": 0.01, "bandwidth": 0.01, "": 0.001}, False),  # too little
        ({"latency": 1.0, "bandwidth": 1.0, "": 1.0}, False),  # slow without it, too
    ],
)
def test_a_delay_is_seen_while_it_is_set_and_only_then(
    free_address: str,
    kind: str,
    seconds: dict[str, float],
    is_seen: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Knocks take what is told here, by what the server has on the link."""

    async def run() -> str:
        async with arena(free_address, own_one=True) as (made, _):

            async def quickest(links: list[ToxicLink], size: int) -> tuple[float, ToxicLink]:
                there = await asyncio.to_thread(made.toxic._api.toxics, links[0].name)
                return seconds[str(there[0]["type"]) if there else ""], links[0]

            monkeypatch.setattr(toxics, "_quickest", quickest)
            return await toxics.FAULTS[kind](Stage(made, ["n0"], 0.0, Random(3)))

    monkeypatch.setattr(toxics, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(toxics, "EFFECT_SECONDS_MAX", limit(20) if is_seen else 0.1)
    assert (OURS in asyncio.run(run())) is is_seen


def never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toxics are lost on their way."""

    async def nothing(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(ToxicLinks, "add", nothing)
    monkeypatch.setattr(ToxicLinks, "down", nothing)
    monkeypatch.setattr(toxics, "EFFECT_SECONDS_MAX", 0.3)
