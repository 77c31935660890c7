"""Client of toxiproxy's HTTP contract: the official server's and ours.

Requests travel through PyPI's `toxiproxy-python` where it is installed (dependency group `chaos`)
and through the standard library elsewhere. Around either it puts what the package lacks
(docs/spec/chaos.md 4.1):

    a URL of its own for each instance · a time limit · every failing status is an error
    toxics are given back and changed in place (PATCH) · `populate` returns all that was asked for
    names with "/" are refused, since the package cannot delete them

All calls block; from an event loop call them in a thread.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import importlib.util
import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chaos.toxiproxy.metrics import Ends, Passed, parse
from chaos.toxiproxy.toxics import DOWNSTREAM
from commitlog.address import split_address

SECONDS_MAX = 5.0
ANSWER_BYTES_MAX = 4 << 20


class ToxiproxyError(OSError):
    """The server refused, failed or did not answer; `status` is 0 if it did not answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class NotThere(ToxiproxyError):
    """404: no such proxy or toxic."""


class AlreadyThere(ToxiproxyError):
    """409: the name is taken."""


class Invalid(ToxiproxyError):
    """400: the request makes no sense to the server."""


_ERRORS = {400: Invalid, 404: NotThere, 409: AlreadyThere}


class Transport(Protocol):
    """One request and its answer."""

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Returns status and body. Raises OSError if the server does not answer in time."""
        ...


class PlainTransport:
    """The standard library's HTTP."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Sends one request, a body as JSON; reads at most 4 MiB back. Raises OSError."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=SECONDS_MAX)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_BYTES_MAX)
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self._host}:{self._port}: {error!r}") from error
        finally:
            connection.close()


class PackageTransport:
    """Sends requests with the consumer of `toxiproxy-python`. Its address belongs to the class, so
    there is one request at a time."""

    _lock = threading.Lock()

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._api: Any = importlib.import_module("toxiproxy.api")
        self._requests: Any = importlib.import_module("requests")
        self._known: Any = importlib.import_module("toxiproxy.exceptions")

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """As `Transport.request`, by the package, one at a time. Raises ConnectionError."""
        errors = (self._known.ProxyExists, self._known.NotFound, self._known.InvalidToxic)
        keep: dict[str, Any] = {"timeout": SECONDS_MAX}
        if body is not None:
            keep["json"] = body
        with self._lock:
            consumer = self._api.APIConsumer
            consumer.host, consumer.port = self._host, self._port
            try:
                if method == "PATCH":  # the package knows only POST for updates
                    url = f"http://{self._host}:{self._port}{path}"
                    answer = self._requests.patch(url, **keep)
                else:
                    answer = getattr(consumer, method.lower())(path, **keep)
            except errors as error:
                statuses = dict(zip(errors, (409, 404, 400), strict=True))
                return statuses[type(error)], bytes(error.args[0])
            except self._requests.RequestException as error:
                raise ConnectionError(str(error)) from error
        return int(answer.status_code), bytes(answer.content)


def has_package() -> bool:
    """Whether toxiproxy-python is installed."""
    return importlib.util.find_spec("toxiproxy") is not None


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as the server described it."""

    name: str
    listen: str
    upstream: str
    enabled: bool

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which the proxy listens; no brackets around an IPv6 host."""
        return split_address(self.listen)


class Toxiproxy:
    """One server. Every method raises ToxiproxyError."""

    def __init__(self, url: str, transport: Transport | None = None) -> None:
        self.url = url
        self._transport = transport or (PackageTransport if has_package() else PlainTransport)(url)

    def version(self) -> str:
        """The server's version."""
        found = self._ask("GET", "/version")
        return str(found["version"])

    def passed(self) -> dict[Ends, Passed]:
        """Bytes that came and that went on. Raises NotThere when the server counts none.

        The official server counts a connection when it ends, and only with `-proxy-metrics`.
        """
        return parse(self._send("GET", "/metrics").decode())

    def proxies(self) -> dict[str, Proxy]:
        """By name."""
        return {name: _proxy(found) for name, found in self._ask("GET", "/proxies").items()}

    def create(
        self, name: str, upstream: str, listen: str = "127.0.0.1:0", *, enabled: bool = True
    ) -> Proxy:
        """Make a proxy; port 0 lets the server choose. Raises AlreadyThere."""
        if "/" in name or not name:
            raise ValueError(f"{name!r} cannot name a proxy")
        fields = {"name": name, "upstream": upstream, "listen": listen, "enabled": enabled}
        return _proxy(self._ask("POST", "/proxies", fields))

    def get(self, name: str) -> Proxy:
        """Raises NotThere."""
        return _proxy(self._ask("GET", f"/proxies/{name}"))

    def delete(self, name: str) -> None:
        """Raises NotThere."""
        self._ask("DELETE", f"/proxies/{name}")

    def populate(self, proxies: Sequence[Mapping[str, str]]) -> list[Proxy]:
        """Creates the proxies that are missing. Returns all of them, also those that existed."""
        found = self._ask("POST", "/populate", list(proxies))
        return [_proxy(one) for one in found["proxies"] or ()]  # of none the server says null

    def enable(self, name: str, *, enabled: bool = True) -> Proxy:
        """Up or down."""
        return _proxy(self._update(f"/proxies/{name}", {"enabled": enabled}))

    @contextlib.contextmanager
    def down(self, name: str) -> Iterator[None]:
        """Down for as long as the context lasts."""
        self.enable(name, enabled=False)
        try:
            yield
        finally:
            self.enable(name)

    def reset(self) -> None:
        """Every proxy up, no toxics."""
        self._ask("POST", "/reset")

    # -- toxics

    def toxics(self, proxy: str) -> list[dict[str, Any]]:
        """Raises NotThere."""
        found: list[dict[str, Any]] = self._ask("GET", f"/proxies/{proxy}/toxics")
        return found

    def add_toxic(
        self,
        proxy: str,
        kind: str,
        stream: str = DOWNSTREAM,
        name: str = "",
        toxicity: float = 1.0,
        **attributes: float,
    ) -> dict[str, Any]:
        """`toxicity`: share of the connections. Raises AlreadyThere, Invalid, NotThere."""
        fields = {
            "name": name or f"{kind}_{stream}",
            "type": kind,
            "stream": stream,
            "toxicity": toxicity,
            "attributes": attributes,
        }
        found: dict[str, Any] = self._ask("POST", f"/proxies/{proxy}/toxics", fields)
        return found

    def change_toxic(self, proxy: str, name: str, **attributes: float) -> dict[str, Any]:
        """Other attributes, without ending a connection. Raises NotThere."""
        found: dict[str, Any] = self._update(
            f"/proxies/{proxy}/toxics/{name}", {"attributes": attributes}
        )
        return found

    def remove_toxic(self, proxy: str, name: str) -> None:
        """Raises NotThere."""
        self._ask("DELETE", f"/proxies/{proxy}/toxics/{name}")

    @contextlib.contextmanager
    def toxic(
        self, proxy: str, kind: str, stream: str = DOWNSTREAM, **attributes: float
    ) -> Iterator[dict[str, Any]]:
        """A toxic for as long as the context lasts."""
        made = self.add_toxic(proxy, kind, stream, "", **attributes)
        try:
            yield made
        finally:
            self.remove_toxic(proxy, made["name"])

    # -- inside

    def _update(self, path: str, fields: Mapping[str, object]) -> Any:
        return self._ask("PATCH", path, fields)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = self._send(method, path, body)
        return json.loads(data) if data.strip() else None

    def _send(self, method: str, path: str, body: object = None) -> bytes:
        try:
            status, data = self._transport.request(method, path, body)
        except OSError as error:
            raise ToxiproxyError(0, f"{self.url} does not answer: {error}") from error
        if status >= 300:
            text = data.decode("utf-8", "replace").strip()
            raise _ERRORS.get(status, ToxiproxyError)(status, f"{method} {path}: {status} {text}")
        return data


def _proxy(found: Mapping[str, Any]) -> Proxy:
    return Proxy(found["name"], found["listen"], found["upstream"], bool(found["enabled"]))
