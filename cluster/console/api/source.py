"""The cluster as the handlers see it: a client like any other, and the node that the API runs in.

Everything is asked by the remoting protocol, so each node's console shows the whole cluster, every
group of it, and what the brokers refuse to the console's account is refused here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cluster.client import Client
from cluster.client.admin.admin import Admin
from cluster.client.config import ClientConfigError
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.console.api.failures import ApiError
from cluster.protocol.frames import EMPTY, Frame

T = TypeVar("T")
R = TypeVar("R")

ASKED_AT_ONCE_MAX = 16
"""Requests that one request of the API has on their way."""
TAILS_MAX = 8
"""Live tails of one node; each asks once a second."""


class Source:
    """Made once for a node.

    Attributes:
        node_status: the node's own snapshot, as /api/v1/status shows it.
        settings: the node's own: rows of key, value and origin, secrets masked.
        chaos_runs: the folder on this node's disk whose chaos runs are shown, if any.
        tails: live tails that are open.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        node_status: Callable[[], Mapping[str, Any]],
        settings: Sequence[Mapping[str, object]] = (),
        chaos_runs: Path | None = None,
    ) -> None:
        """`connect` makes the client when the first request comes."""
        self._connect = connect
        self._client: Client | None = None
        self.node_status = node_status
        self.settings = settings
        self.chaos_runs = chaos_runs
        self.tails = 0

    @property
    def client(self) -> Client:
        """The client; it dials when it is asked for something.

        Raises ApiError (503) for an account or certificates that cannot be used.
        """
        if self._client is None:
            try:
                self._client = self._connect()
            except ClientConfigError as error:  # its account file, or certificates
                raise ApiError(503, "console-account", str(error)) from error
        return self._client

    @property
    def admin(self) -> Admin:
        """Topics, groups and members."""
        return self.client.admin()

    async def close(self) -> None:
        """Close the client, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def broker_names(self) -> list[str]:
        """Every broker name. Raises NotConnected."""
        return sorted(await self.client.instance.routes.registered())

    async def ask(
        self, broker: str, code: int, ext: Mapping[str, str] = EMPTY, topic: str = DEFAULT_TOPIC
    ) -> Frame:
        """The answer of a broker name's leader. Raises ClusterError."""
        return await ask_leader(self.client.instance, broker, topic, code, ext)


async def ask_each(ask: Callable[[T], Awaitable[R]], of: Iterable[T]) -> list[R]:
    """The answers in order; a few are asked for at the same time. Raises the first error."""
    turn = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def one(value: T) -> R:
        async with turn:
            return await ask(value)

    tasks: Sequence[asyncio.Task[R]] = [asyncio.ensure_future(one(value)) for value in of]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
