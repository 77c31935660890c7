"""Our own server with toxiproxy's HTTP contract (docs/spec/chaos.md 3.3, 4.2).

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
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from chaos.toxiproxy import addresses
from chaos.toxiproxy.bodies import (
    ProxyBody,
    Refused,
    decode,
    list_of,
    proxy_body,
    whole,
)
from chaos.toxiproxy.metrics import render
from chaos.toxiproxy.proxies import Proxy
from chaos.toxiproxy.toxics import STREAMS, Toxic, changed, read_toxic

VERSION = "2.12.0"  # of the contract
REQUEST_BYTES_MAX = 1 << 20
PROXIES_MAX = 1000


class ToxicServer:
    """`async with` listens and closes; `url` is known then."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, seed: int = 0) -> None:
        self.url = ""
        self._host, self._port, self._seed = host, port, seed
        self._proxies: dict[str, Proxy] = {}
        self._runner: web.AppRunner | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> ToxicServer:
        app = web.Application(
            client_max_size=REQUEST_BYTES_MAX, middlewares=[_errors, self._in_turn]
        )
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
            await proxy.disable()

    @web.middleware
    async def _in_turn(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """One request at a time: most await something between two steps."""
        await request.read()
        async with self._turn:
            response: web.StreamResponse = await handler(request)
            return response

    # -- proxies

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _metrics(self, _: web.Request) -> web.Response:
        passed = {
            (stream, proxy.name, proxy.listen, proxy.upstream): proxy.passed(stream)
            for proxy in self._proxies.values()
            for stream in STREAMS
        }
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
        proxy = Proxy(name, listen, wanted.upstream, self._seed)
        if wanted.enabled:
            await proxy.enable()
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
        except (Refused, OSError) as error:
            status = error.status if isinstance(error, Refused) else 500
            raise Refused(status, str(error), _populated(made)) from error
        return web.json_response(_populated(made), status=201)

    async def _replaced(self, wanted: ProxyBody) -> Proxy:
        """The proxy as wanted: the one that is there, or another in its place."""
        old = self._proxies.get(wanted.name)
        if old is None:
            return await self._make(wanted)
        if not await _differs(old, wanted):
            return old
        await old.disable()
        return await self._make(wanted)

    async def _reset(self, _: web.Request) -> web.Response:
        for proxy in self._proxies.values():
            await proxy.enable()
            for toxic in proxy.listed():
                await proxy.remove(toxic)
        return web.Response(status=204)

    async def _show(self, request: web.Request) -> web.Response:
        return web.json_response(self._proxy(request).to_fields())

    async def _update(self, request: web.Request) -> web.Response:
        proxy, found = self._proxy(request), decode(await request.read())
        wanted = proxy_body(
            found, listen=proxy.listen, upstream=proxy.upstream, enabled=proxy.enabled
        )
        if await _differs(proxy, wanted):
            await proxy.disable()
            proxy.listen, proxy.upstream = wanted.listen, wanted.upstream
        await (proxy.enable() if wanted.enabled else proxy.disable())
        return web.json_response(proxy.to_fields())

    async def _delete(self, request: web.Request) -> web.Response:
        proxy = self._proxies.pop(self._proxy(request).name)
        await proxy.disable()
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
        await proxy.add(toxic)
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
        other = changed(toxic, decode(await request.read()))
        await proxy.change(other)
        return web.json_response(other.to_fields())

    async def _remove_toxic(self, request: web.Request) -> web.Response:
        proxy, toxic = self._toxic(request)
        await proxy.remove(toxic)
        return web.Response(status=204)


def _populated(made: Sequence[Proxy]) -> dict[str, Any]:
    return {"proxies": [proxy.to_fields() for proxy in made] or None}


async def _differs(proxy: Proxy, wanted: ProxyBody) -> bool:
    listens = await addresses.resolved(wanted.listen)
    return wanted.upstream != proxy.upstream or listens != addresses.split(proxy.listen)


@web.middleware
async def _errors(request: web.Request, handler: Any) -> web.StreamResponse:
    if request.headers.get("User-Agent", "").startswith("Mozilla/"):
        return web.Response(status=403, text="User agent not allowed\n")
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except Refused as refused:
        said = refused
    except OSError as error:  # of an address
        said = Refused(500, str(error))
    return web.json_response(said.to_fields(), status=said.status)
