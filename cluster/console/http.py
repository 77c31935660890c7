"""The console behind a node's admin HTTP: reads requests by the table, and serves the page.

    /, /docs             the console, and the page of the document; files that need no token
    /api/v1/…            the table's routes, each for its role
    /api/v1/openapi.json the document

The admin HTTP has checked Host, Origin and token before (admin_http.py). A write must come as JSON,
which a page of another site cannot send without asking first, and such a question is not answered.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import orjson
from aiohttp import web

from cluster.client.routing.on_behalf import on_behalf
from cluster.console.api.failures import ApiError, api_error
from cluster.console.api.openapi import document
from cluster.console.api.roles import Tokens
from cluster.console.api.routes import ROUTES
from cluster.console.api.source import Source
from cluster.console.api.table import Route
from cluster.errors import ClusterError

API = "/api/"
DOCUMENT = "/api/v1/openapi.json"
JSON = "application/json"
EVENTS = "text/event-stream"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
PAGES = {"/": "index.html", "/docs": "docs.html"}
BODY_BYTES_MAX = 1 << 16
REFUSALS = {
    401: "no-token",
    403: "other-host",
    404: "no-such-route",
    405: "no-such-method",
    413: "body-too-large",
    503: "node-opens",
}

_log = logging.getLogger(__name__)
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]
KeepOpen = Callable[[web.Request], None]


class Console:
    """The routes of one node's console. `tokens` say which role a request has."""

    def __init__(self, source: Source, tokens: Tokens) -> None:
        self._source, self._tokens = source, tokens
        self._files = _files()
        self._document = orjson.dumps(document(ROUTES))

    def is_public(self, path: str) -> bool:
        """True for a path without data; a browser gets the page that asks for a token."""
        return path in PAGES or path == DOCUMENT or path.removeprefix("/static/") in self._files

    def is_known(self, authorization: str) -> bool:
        """True for a header with one of the tokens, or if there are none."""
        return self._tokens.role_of(authorization) is not None

    def refusal(self, status: int, text: str) -> web.Response:
        """A request that the admin HTTP refuses before a route is asked."""
        kind = REFUSALS.get(status, "refused")
        return failure(ApiError(status, kind, text, retriable=status == 503))

    def routes(self, keep_open: KeepOpen) -> Iterable[web.RouteDef]:
        """For the admin HTTP; `keep_open` says that a connection is in use (admin_connections)."""
        yield web.get(DOCUMENT, self._serve_document)
        for page in PAGES:
            yield web.get(page, self._serve_file)
        yield web.get("/static/{name}", self._serve_file)
        for route in ROUTES:
            yield web.route(route.method, route.path, self._serving(route, keep_open))

    async def close(self) -> None:
        """Close the client of the cluster."""
        await self._source.close()

    def _serving(self, route: Route, keep_open: KeepOpen) -> Served:
        async def serve(request: web.Request) -> web.StreamResponse:
            try:
                role = self._tokens.role_of(request.headers.get("Authorization", ""))
                if role is None or role < route.role:
                    raise ApiError(
                        403,
                        "role-too-low",
                        f"this needs the role {route.role.label}; use a token of that role",
                    )
                values = route.read(
                    request.match_info, _query(request), await _body(request, route)
                )
                if route.changes:
                    _log.info(
                        "audit: %s %s by %s: %s", route.method, route.path, role.label, values
                    )
                if route.stream is not None:
                    return await _send_events(
                        request, route.stream(self._source, values), keep_open
                    )
                assert route.handler is not None, "one of the two"
                with on_behalf(_tool(request), role.label):
                    found = await route.handler(self._source, values)
                if route.answer == "Me":
                    found |= {"role": role.label, "token_required": self._tokens.required}
                return _json(200, found)
            except (ApiError, ClusterError) as error:
                return failure(error)
            except (web.HTTPException, OSError):
                raise
            except Exception:  # a mistake of ours costs this request, and its answer is JSON, too
                _log.exception("%s %s", route.method, route.path)
                return failure(
                    ApiError(
                        500, "mistake", "the console made a mistake; its log has the traceback"
                    )
                )

        return serve

    async def _serve_document(self, request: web.Request) -> web.Response:
        return web.Response(body=self._document, content_type=JSON, headers=HEADERS)

    async def _serve_file(self, request: web.Request) -> web.Response:
        name = PAGES.get(request.path) or request.match_info["name"]
        data = self._files.get(name)
        if data is None:
            raise web.HTTPNotFound
        kind = TYPES[name.rpartition(".")[2]]
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        return web.Response(body=data, content_type=kind, charset="utf-8", headers=headers)


def _tool(request: web.Request) -> str:
    """The tool as audit logs have it: browsers alone send this header, and no script sets it."""
    return "console" if "Sec-Fetch-Site" in request.headers else "api"


def failure(error: ApiError | ClusterError) -> web.Response:
    """An error as the API answers it."""
    found = error if isinstance(error, ApiError) else api_error(error)
    return _json(found.status, found.to_json())


def _json(status: int, value: Any) -> web.Response:
    headers = {**HEADERS, "Cache-Control": "no-store"}
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(status=status, body=body, content_type=JSON, headers=headers)


def _files() -> dict[str, bytes]:
    """The files of static/, which are few and small."""
    folder = importlib.resources.files("cluster.console") / "static"
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file() and file.name.rpartition(".")[2] in TYPES
    }


def _query(request: web.Request) -> dict[str, str]:
    """Values of the query, of which none may come twice. Raises ApiError (400)."""
    for name in request.query:
        if len(request.query.getall(name)) > 1:
            raise ApiError(400, "value-twice", f"{name!r:.60} is given twice; give it once")
    return dict(request.query)


async def _body(request: web.Request, route: Route) -> Mapping[str, Any]:
    """The JSON object of a write; {} for a read. Raises ApiError."""
    if not route.changes:
        return {}
    if request.content_type != JSON:
        raise ApiError(
            415, "not-json", f"the content type is {request.content_type:.60}; send {JSON}"
        )
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise ApiError(403, "other-site", "another site's page asks; open this node's own page")
    data = await request.read()
    if len(data) > BODY_BYTES_MAX:
        raise ApiError(
            413, "body-too-large", f"{len(data)} bytes are too many; send at most {BODY_BYTES_MAX}"
        )
    try:
        found = orjson.loads(data or b"{}")
    except orjson.JSONDecodeError as error:
        raise ApiError(400, "not-json", f"the body is no JSON ({error}); send an object") from None
    if not isinstance(found, dict):
        raise ApiError(400, "not-json", "the body is no JSON object; send {…}")
    return found


async def _send_events(
    request: web.Request, events: Any, keep_open: KeepOpen
) -> web.StreamResponse:
    """A stream of server-sent events. An error before the first one is an ordinary answer."""
    first = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait((first,), timeout=0.5)
    if done and (error := first.exception()) is not None:
        raise error
    response = web.StreamResponse(headers={**HEADERS, "Cache-Control": "no-store"})
    response.content_type = EVENTS
    try:
        await response.prepare(request)
        await response.write(b": open\n\n")
        event = await first
        while True:  # until the client goes away
            keep_open(request)
            text = b": none\n\n" if event is None else b"data: " + orjson.dumps(event) + b"\n\n"
            await response.write(text)
            event = await anext(events)
    except ClusterError as error:
        said = orjson.dumps(api_error(error).to_json())
        await response.write(b"event: error\ndata: " + said + b"\n\n")
    except ConnectionError:
        pass  # the client went away
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await events.aclose()
    return response
