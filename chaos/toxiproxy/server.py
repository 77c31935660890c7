"""Our own server with toxiproxy's HTTP contract on our own link proxies (chaos.md 3.3, 4.2).

    GET /proxies            POST /proxies           POST /populate      POST /reset
    GET, POST, PATCH, DELETE /proxies/{proxy}
    GET, POST /proxies/{proxy}/toxics
    GET, POST, PATCH, DELETE /proxies/{proxy}/toxics/{toxic}            GET /version, /metrics

The odd ones of the original are kept: connects succeed during `timeout`, whose removal closes the
connections; a proxy that is down ends the old and refuses the new; browsers get 403. Chance is
seeded, so a run repeats. It listens on loopback and has no access control.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from chaos.live.link_proxy import LinkProxy
from chaos.toxiproxy.bodies import (
    ProxyBody,
    Refused,
    decode,
    list_of,
    proxy_body,
    resolved,
    split_address,
    whole,
)
from chaos.toxiproxy.metrics import Passed, render
from chaos.toxiproxy.toxics import (
    DOWNSTREAM,
    STREAMS,
    UPSTREAM,
    Toxic,
    changed,
    layers,
    meaning,
    read_toxic,
)

VERSION = "2.12.0"  # of the contract
REQUEST_BYTES_MAX = 1 << 20
PROXIES_MAX = 1000


@dataclass(slots=True)
class Proxy:
    """One proxy and its toxics by name, in the order in which they came."""

    name: str
    upstream: str
    link: LinkProxy
    enabled: bool = False
    toxics: dict[str, Toxic] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Any]:
        """As the HTTP contract has it."""
        return {
            "name": self.name,
            "listen": self.link.listen,
            "upstream": self.upstream,
            "enabled": self.enabled,
            "toxics": [toxic.to_fields() for toxic in self.listed()],
        }

    def of_stream(self, stream: str) -> list[Toxic]:
        """One stream's toxics."""
        return [toxic for toxic in self.toxics.values() if toxic.stream == stream]

    def listed(self) -> list[Toxic]:
        """As the contract lists them: by stream."""
        return [toxic for stream in STREAMS for toxic in self.of_stream(stream)]

    def has(self, kind: str) -> bool:
        """Whether any stream has a toxic of this type."""
        return any(toxic.type == kind for toxic in self.toxics.values())


class ToxicServer:
    """`async with` listens and closes; `url` is known then."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, seed: int = 0) -> None:
        self.url = ""
        self._host, self._port, self._seed = host, port, seed
        self._proxies: dict[str, Proxy] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> ToxicServer:
        app = web.Application(client_max_size=REQUEST_BYTES_MAX, middlewares=[_errors])
        app.add_routes(
            [
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
                web.get("/proxies", self._list),
                web.post("/proxies", self._create),
                web.post("/populate", self._populate),
                web.post("/reset", self._reset),
                web.get("/proxies/{proxy}", self._show),
                web.post("/proxies/{proxy}", self._update),
                web.patch("/proxies/{proxy}", self._update),
                web.delete("/proxies/{proxy}", self._delete),
                web.get("/proxies/{proxy}/toxics", self._toxics),
                web.post("/proxies/{proxy}/toxics", self._add_toxic),
                web.get("/proxies/{proxy}/toxics/{toxic}", self._show_toxic),
                web.post("/proxies/{proxy}/toxics/{toxic}", self._change_toxic),
                web.patch("/proxies/{proxy}/toxics/{toxic}", self._change_toxic),
                web.delete("/proxies/{proxy}/toxics/{toxic}", self._remove_toxic),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        for proxy in self._proxies.values():
            await proxy.link.close()

    # -- proxies

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _metrics(self, _: web.Request) -> web.Response:
        passed = {}
        for proxy in self._proxies.values():
            for stream, way in ((UPSTREAM, proxy.link.forward), (DOWNSTREAM, proxy.link.backward)):
                ends = (stream, proxy.name, proxy.link.listen, proxy.upstream)
                passed[ends] = Passed(way.received, way.sent)
        return web.Response(text=render(passed))

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({name: p.to_fields() for name, p in self._proxies.items()})

    async def _create(self, request: web.Request) -> web.Response:
        wanted = whole(proxy_body(decode(await request.read())))
        if wanted.name in self._proxies:
            raise Refused(409, "proxy already exists")
        proxy = await self._make(wanted)
        return web.json_response(proxy.to_fields(), status=201)

    async def _make(self, wanted: ProxyBody) -> Proxy:
        if len(self._proxies) >= PROXIES_MAX:
            raise Refused(500, f"there are {PROXIES_MAX} proxies already")
        name, listen = wanted.name, wanted.listen or f"{self._host}:0"
        link = LinkProxy("client", name, listen, wanted.upstream, seed=self._seed_of(name))
        proxy = Proxy(name, wanted.upstream, link)
        if wanted.enabled:
            await _enable(proxy)
        self._proxies[name] = proxy
        return proxy

    async def _populate(self, request: web.Request) -> web.Response:
        made: list[Proxy] = []
        try:
            found = list_of(decode(await request.read()))
            # All are read before the first is made.
            bodies = [proxy_body(one) for one in found]
            bodies = [whole(one, f" at proxy {at}") for at, one in enumerate(bodies, 1)]
            for wanted in bodies:
                made.append(await self._replaced(wanted))
        except Refused as refused:
            raise Refused(refused.status, str(refused), _populated(made)) from refused
        return web.json_response(_populated(made), status=201)

    async def _replaced(self, wanted: ProxyBody) -> Proxy:
        """The proxy as wanted: the one that is there, or another in its place."""
        old = self._proxies.get(wanted.name)
        if old is None:
            return await self._make(wanted)
        if not await _differs(old, wanted):
            return old
        await _disable(old)
        made = await self._make(wanted)
        await old.link.close()
        return made

    async def _reset(self, _: web.Request) -> web.Response:
        for proxy in self._proxies.values():
            before = proxy.has("timeout")
            proxy.toxics.clear()
            await self._apply(proxy, swallowed=before)
            await _enable(proxy)
        return web.Response(status=204)

    async def _show(self, request: web.Request) -> web.Response:
        return web.json_response(self._proxy(request).to_fields())

    async def _update(self, request: web.Request) -> web.Response:
        proxy, found = self._proxy(request), decode(await request.read())
        wanted = proxy_body(
            found, listen=proxy.link.listen, upstream=proxy.upstream, enabled=proxy.enabled
        )
        if await _differs(proxy, wanted):
            await _disable(proxy)
            proxy.link.listen = wanted.listen
            proxy.upstream = proxy.link.forward_to = wanted.upstream
        await (_enable(proxy) if wanted.enabled else _disable(proxy))
        return web.json_response(proxy.to_fields())

    async def _delete(self, request: web.Request) -> web.Response:
        proxy = self._proxies.pop(self._proxy(request).name)
        await proxy.link.close()
        return web.Response(status=204)

    def _proxy(self, request: web.Request) -> Proxy:
        found = self._proxies.get(request.match_info["proxy"])
        if found is None:
            raise Refused(404, "proxy not found")
        return found

    # -- toxics

    async def _toxics(self, request: web.Request) -> web.Response:
        proxy = self._proxy(request)
        return web.json_response([toxic.to_fields() for toxic in proxy.listed()])

    async def _add_toxic(self, request: web.Request) -> web.Response:
        proxy = self._proxy(request)
        toxic = read_toxic(decode(await request.read()))
        if toxic.name in proxy.toxics:
            raise Refused(409, "toxic already exists")
        proxy.toxics[toxic.name] = toxic
        await self._apply(proxy)
        return web.json_response(toxic.to_fields())

    def _toxic(self, request: web.Request) -> tuple[Proxy, Toxic]:
        proxy = self._proxy(request)
        toxic = proxy.toxics.get(request.match_info["toxic"])
        if toxic is None:
            raise Refused(404, "toxic not found")
        return proxy, toxic

    async def _show_toxic(self, request: web.Request) -> web.Response:
        return web.json_response(self._toxic(request)[1].to_fields())

    async def _change_toxic(self, request: web.Request) -> web.Response:
        proxy, toxic = self._toxic(request)
        proxy.toxics[toxic.name] = changed(toxic, decode(await request.read()))
        await self._apply(proxy)
        return web.json_response(proxy.toxics[toxic.name].to_fields())

    async def _remove_toxic(self, request: web.Request) -> web.Response:
        proxy, toxic = self._toxic(request)
        del proxy.toxics[toxic.name]
        await self._apply(proxy, swallowed=toxic.type == "timeout")
        return web.Response(status=204)

    def _seed_of(self, name: str) -> int:
        return self._seed ^ zlib.crc32(name.encode())

    async def _apply(self, proxy: Proxy, *, swallowed: bool = False) -> None:
        """Make the link do what the toxics mean together; `swallowed`: a `timeout` is gone."""
        link = proxy.link
        for stream in (UPSTREAM, DOWNSTREAM):
            seed = self._seed_of(f"{proxy.name}/{stream}")
            link.set_layers(layers(proxy.of_stream(stream), seed), forward=stream == UPSTREAM)
        every = meaning(proxy.toxics.values(), 0)
        link.close_delay = max(0.0, every.slow_close)
        resets = (toxic.toxicity for toxic in proxy.toxics.values() if toxic.type == "reset_peer")
        link.resets_new = max(resets, default=0.0)
        if swallowed:
            link.end_connections()  # as the original: bytes are missing from these streams
        if every.idle_close > 0:
            asyncio.get_running_loop().call_later(every.idle_close, link.end_connections)
        if proxy.enabled and proxy.has("blackhole_syn") is not link.answers_nobody:
            await (link.listen_again() if link.answers_nobody else link.blackhole_syn())


def _populated(made: Sequence[Proxy]) -> dict[str, Any]:
    return {"proxies": [proxy.to_fields() for proxy in made] or None}


async def _differs(proxy: Proxy, wanted: ProxyBody) -> bool:
    try:
        return wanted.upstream != proxy.upstream or (
            await resolved(wanted.listen)
        ) != split_address(proxy.link.listen)
    except OSError as error:
        raise Refused(500, str(error)) from error


async def _enable(proxy: Proxy) -> None:
    if not proxy.enabled:
        try:
            await resolved(proxy.link.listen)
            await proxy.link.open()
            if proxy.has("blackhole_syn"):
                await proxy.link.blackhole_syn()
        except OSError as error:
            raise Refused(500, f"listen {proxy.link.listen}: {error}") from error
        proxy.enabled = True


async def _disable(proxy: Proxy) -> None:
    if proxy.enabled:
        proxy.link.disable()
        proxy.enabled = False


@web.middleware
async def _errors(request: web.Request, handler: Any) -> web.StreamResponse:
    if request.headers.get("User-Agent", "").startswith("Mozilla/"):
        return web.Response(status=403, text="User agent not allowed\n")
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except Refused as refused:
        return web.json_response(refused.to_fields(), status=refused.status)
