"""One client per process and cluster, for callers without an event loop: workers and the driver.

    remote(options) ─► Remote ─► an event loop in a thread ─► cluster.client

Python workers of Spark live on from task to task and from query to query, so connections do, too.
They are told apart by process: a fork must not share sockets with its parent. Nothing closes them:
Spark never says that a source is not needed any more (docs/spec/pipeline.md 2.3); they end with the
process.

Every request here reads and may be repeated. An error that may pass with time is tried again
`retries_max` times, first soon, then every `retry_interval_ms`: by default for more than a minute
without a leader.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from cluster.client.blocking.loop_thread import LoopThread
from cluster.client.client import Client
from cluster.client.connection.connection import Connection
from cluster.client.discovery import resolve
from cluster.errors import ClusterError, NotConnected, NotLeader
from cluster.protocol.codes import exception_for
from cluster.protocol.frames import EMPTY, Frame
from cluster.protocol.route import LEADER_ID, TopicRoute
from commitlog.advice import Advised
from pipeline.source.client_options import client_config
from pipeline.source.options import SourceOptions

T = TypeVar("T")
ROUTE_SECONDS = 5.0  # a broker name more is seen so much later; queues are told by brokers at once
FIRST_PAUSE_SECONDS = 0.02  # a new leader is usually there within a tenth of a second


class SourceError(Advised):
    """The cluster could not be read; the message names the attempted request."""

    advice = "look at the cluster, then start the query again"


class Access(NamedTuple):
    """The settings by which one client differs from another."""

    servers: str
    client: tuple[tuple[str, str], ...]


class Patience(NamedTuple):
    """How long one request is waited for, and how often it is repeated. Seconds."""

    time_limit: float
    retries_max: int
    interval: float


class _Shared(NamedTuple):
    """The connection that all reads of one cluster in this process share. `routed_at`: topic → time
    of its last route, monotonic."""

    portal: LoopThread
    client: Client
    routed_at: dict[str, float]


class Remote:
    """Made by `remote`. Its methods block and may be called from any thread."""

    def __init__(self, access: Access, patience: Patience, read_from: str) -> None:
        self._portal, self._client, self._routed_at = _shared(access)
        self._patience, self._read_from = patience, read_from
        self._turn = itertools.count()

    @property
    def client(self) -> Client:
        """For coroutines given to `run`."""
        return self._client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the client's loop and returns its result. Raises its error."""
        return self._portal.run(work)

    def start(
        self, broker: str, topic: str, code: int, ext: Mapping[str, str], *, results: frozenset[int]
    ) -> concurrent.futures.Future[Frame]:
        """Ask a broker; the answer comes later. See `ask`."""
        return self._portal.start(
            lambda: asyncio.ensure_future(self.ask(broker, topic, code, ext, results=results))
        )

    async def ask(
        self,
        broker: str,
        topic: str,
        code: int,
        ext: Mapping[str, str] = EMPTY,
        *,
        results: frozenset[int] = frozenset({0}),
        leader: bool = False,
    ) -> Frame:
        """One request to a broker name, repeated while that may help.

        Args:
            results: response codes that are answers; all others are failures.
            leader: only the leader may answer, whatever `readFrom` says.

        Raises SourceError; the ClusterError itself when repeating cannot help.
        """

        async def once(failures: int) -> Frame:
            connection = await self._connection(broker, topic, failures, leader=leader)
            answer = await connection.call(code, ext, time_limit=self._patience.time_limit)
            if answer.code not in results:
                raise exception_for(answer.code, answer.remark, answer.ext)
            return answer

        return await self.repeated(once, broker)

    async def repeated(self, work: Callable[[int], Awaitable[T]], broker: str = "") -> T:
        """`work(failures so far)` until it succeeds. Raises as `ask`."""
        for failures in itertools.count(1):
            try:
                return await work(failures - 1)
            except ClusterError as error:
                if not error.retriable:
                    raise
                if isinstance(error, NotLeader) and error.leader and broker:
                    self._client.leaders.hint(broker, error.leader)
                problem = error
            await self.pause(failures, problem)
        raise AssertionError("the loop ends by returning or raising")

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """Where a topic is; asked for at most every few seconds, since an idle stream looks for
        messages a hundred times a second. While no name server answers, a known one counts.

        Raises TopicNotFound, SourceError.
        """
        now, known = time.monotonic(), self._client.routes.known(topic)
        if known is not None and not fresh:
            if now - self._routed_at.get(topic, 0.0) <= ROUTE_SECONDS:
                return known
            with contextlib.suppress(NotConnected):
                known = await self._client.routes.refresh(topic)
        else:
            known = await self.repeated(lambda _: self._client.routes.refresh(topic))
        self._routed_at[topic] = now
        return known

    async def pause(self, failures: int, problem: ClusterError) -> None:
        """Before the next attempt. Raises SourceError when there were enough."""
        if failures > self._patience.retries_max:
            raise SourceError(
                f"{problem}; tried {failures} times (numRetries, retryIntervalMs and "
                "fetchTimeoutMs say how long)"
            ) from problem
        soon = FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 20)
        await asyncio.sleep(min(soon, self._patience.interval))

    async def _connection(
        self, broker: str, topic: str, failures: int, *, leader: bool
    ) -> Connection:
        """Returns a connection to the wanted kind of replica; after a failure to the present
        leader."""
        if not leader and not failures and self._read_from != "leader":
            address = await self._replica(broker, topic)
            if address:
                try:
                    return await self._client.pool.get(address)
                except NotConnected:
                    pass
        return await self._client.leaders.connection(broker, topic, look=failures > 1)

    async def _replica(self, broker: str, topic: str) -> str | None:
        routes = self._client.routes
        if broker not in routes.brokers:
            await routes.get(topic)
        data = routes.brokers.get(broker)
        if data is None:
            return None
        places = [
            place
            for number, place in sorted(data.addresses.items())
            if self._read_from == "any" or number != LEADER_ID
        ]
        return places[next(self._turn) % len(places)] if places else None


_clients: dict[tuple[int, Access], _Shared] = {}


def _shared(access: Access) -> _Shared:
    key = (os.getpid(), access)
    if key not in _clients:
        places, config = resolve(access.servers), client_config(dict(access.client))
        portal = LoopThread()
        _clients[key] = _Shared(portal, portal.call(lambda: Client(places, config)), {})
    return _clients[key]


def remote(options: SourceOptions) -> Remote:
    """The cluster of these options. Raises ClientConfigError for an impossible address."""
    access = Access(options.servers, tuple(sorted(options.client.items())))
    patience = Patience(
        options.fetch_timeout_ms / 1000, options.retries_max, options.retry_interval_ms / 1000
    )
    return Remote(access, patience, options.read_from)
