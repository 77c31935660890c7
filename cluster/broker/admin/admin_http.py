"""HTTP of one node, for people and monitors.

    GET /healthz         200 alive, 503 when the replica stopped itself (disk or damage), with why
    GET /readyz          200 clients are served here now, 503 with why not (readiness.py)
    GET /metrics         Prometheus text                                    503 while it is opened
    GET /api/v1/status   one JSON object: role, term, pointers, addresses   503 while it is opened
    /, /api/v1/…         the console, where the node has one (cluster/console)

Its own part reads snapshots and changes nothing; connections are bounded (admin_connections.py).
On loopback it asks nobody who he is; beyond, it needs a token. A page of the internet that a
person's browser shows must not read it by way of that person:

    Host      an address of the kind that is listened on; a name only when it is localhost, or the
              one that is listened on (a foreign name may be made to lead here)   else 403
    Origin    none, or of such a host                                            else 403
    token     Authorization: Bearer TOKEN, where one is set; not for the console's files, which
              hold no data                                                       else 401

Import it inside the node's process alone: aiohttp takes a third of a second.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cluster.broker.admin.admin_connections import BACKLOG, AdminConnections
from cluster.broker.admin.http_log import HttpLog
from dledger.runtime.listening import listen_at, stop_listening
from dledger.runtime.owned import Owned

LINE_BYTES_MAX = 48 << 10  # of a request: the cursor of a topic with many queues is long
SHUTDOWN_SECONDS_MAX = 1.0
HEALTH = "/healthz"
STATUS = "/api/v1/status"
API = "/api/"


class AdminSource(Protocol):
    """The node that the admin server shows. All calls come from the event loop's thread; but for
    `look` they are quick.
    """

    @property
    def registry(self) -> CollectorRegistry:
        """The metrics of `/metrics`."""
        ...

    async def look(self) -> None:
        """Update values of a scrape that take more than a moment to find."""
        ...

    def status(self) -> Mapping[str, Any]:
        """JSON values only."""
        ...

    def not_open(self) -> str:
        """Why the node has no pages at the moment, "" when it has. Asked before all others."""
        ...

    def not_healthy(self) -> str:
        """Why this replica stopped working, "" while it works."""
        ...

    def not_ready(self) -> str:
        """Why clients are not served here now, "" when they are."""
        ...


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminPages(Protocol):
    """Further routes of the admin HTTP: the console."""

    def routes(self, keep_open: Callable[[web.Request], None]) -> Iterable[web.RouteDef]:
        """`keep_open` counts a request as answered just now, so its connection stays open."""
        ...

    def is_public(self, path: str) -> bool:
        """True for a path that needs no token."""
        ...

    def is_known(self, authorization: str) -> bool:
        """True for a header with one of the tokens, or if there are none."""
        ...

    def refusal(self, status: int, text: str) -> web.Response:
        """A refused request of the API; `text`: a sentence, "; ", and one thing to try."""
        ...

    async def close(self) -> None:
        """Close connections and tasks that the pages have opened."""
        ...


class AdminServer:
    """Serves one source on one address."""

    def __init__(
        self,
        source: AdminSource,
        host: str,
        port: int,
        *,
        owned: Owned,
        token: str | None = None,
        pages: AdminPages | None = None,
    ) -> None:
        """`token`: each request shows it; `pages` have tokens of their own in place of it."""
        self._source, self._token, self._owned = source, token, owned
        self._pages = pages
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self.connections: AdminConnections | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        app = web.Application(middlewares=[self._guarded])
        app.add_routes(
            [
                web.get(HEALTH, self._health),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
            ]
        )
        if self._pages is None:
            app.add_routes([web.get(STATUS, self._status)])
        else:
            app.add_routes(self._pages.routes(self._served))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS_MAX,
            logger=HttpLog(self._owned.time),
            max_line_size=LINE_BYTES_MAX,
        )
        await self._runner.setup()
        assert self._runner.server is not None, "it is set up"
        self.connections = AdminConnections(self._runner.server, self._owned)
        try:
            self._server = await listen_at(
                self.connections, self._host, self._port, backlog=BACKLOG
            )
        except OSError as error:
            await self.close()
            raise OSError(
                error.errno,
                f"the admin HTTP cannot listen on {self._host}:{self._port} "
                f"({os.strerror(error.errno or 0)}); set admin.listen to a free address",
            ) from error

    async def close(self) -> None:
        """Stop listening; idempotent."""
        if self._server is not None:
            await stop_listening(self._server)
            self._server = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._pages is not None:
            await self._pages.close()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._served(request)
        try:
            refused = self._refusal(request)
            return refused if refused is not None else await handler(request)
        except web.HTTPException as error:
            if not request.path.startswith(API):
                raise
            return self._refused(request, error.status, f"{error.reason}; see /docs")

    def _served(self, request: web.Request) -> None:
        if self.connections is not None:
            self.connections.served(request.transport)

    def _refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a request that must not be handled now; None for others."""
        if not self._shows_token(request):
            return self._refused(request, 401, "this needs Authorization: Bearer TOKEN; show it")
        origin = request.headers.get("Origin")
        asked = [request.headers.get("Host", "")]
        if origin is not None:
            asked.append(origin.removeprefix("http://").removeprefix("https://"))
        if not all(_is_own(host, self._host) for host in asked):
            text = f"this is the admin HTTP of {self._host}; ask for it by that address"
            return self._refused(request, 403, text)
        if (reason := self._source.not_open()) and request.path != HEALTH:
            return self._refused(request, 503, reason)
        return None

    def _shows_token(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization", "")
        if self._pages is not None:
            return self._pages.is_public(request.path) or self._pages.is_known(given)
        return self._token is None or _is_token(given, self._token)

    def _refused(self, request: web.Request, status: int, text: str) -> web.Response:
        if self._pages is not None and request.path.startswith(API):
            return self._pages.refusal(status, text)
        return web.Response(status=status, text=f"{text}\n")

    async def _health(self, request: web.Request) -> web.Response:
        # A node that opens its files again is alive; faults of the files show when they are open.
        reason = "" if self._source.not_open() else self._source.not_healthy()
        return _verdict("healthy", reason)

    async def _ready(self, request: web.Request) -> web.Response:
        return _verdict("ready", self._source.not_ready())

    async def _metrics(self, request: web.Request) -> web.Response:
        await self._source.look()
        if reason := self._source.not_open():
            return _verdict("", reason)
        body = generate_latest(self._source.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _status(self, request: web.Request) -> web.Response:
        body = orjson.dumps(dict(self._source.status()), default=str)
        return web.Response(body=body, content_type="application/json")


def _verdict(word: str, reason: str) -> web.Response:
    return web.Response(status=503 if reason else 200, text=f"{reason or word}\n")


def _is_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode())


def _is_own(asked: str, listens: str) -> bool:
    """Is "host" or "host:port" a way to name the address that is listened on?

    A tunnel may change the port, so that counts for nothing.
    """
    host = asked.rpartition("]")[0].removeprefix("[") or asked.partition(":")[0]
    if host in (listens, "localhost"):
        return True
    try:
        address, own = ipaddress.ip_address(host), ipaddress.ip_address(listens)
    except ValueError:
        return False
    return own.is_unspecified or (own.is_loopback and address.is_loopback) or address == own
