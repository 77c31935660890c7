"""Parts that all producers and consumers and the admin of one client share.

RocketMQ's clients call the same thing MQClientInstance. It knows nothing of producers and
consumers, so those may name it without a circle of imports.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from cluster.client.config import ClientConfig
from cluster.client.connection.connection import ServerRequest
from cluster.client.connection.pool import Pool
from cluster.client.routing.leaders import Leaders
from cluster.client.routing.routes import DEFAULT_TOPIC, Routes
from cluster.errors import ClusterError

if TYPE_CHECKING:
    from cluster.client.spans import ClientSpans


class ClientInstance:
    """Connections, routes, leaders and background tasks of one client.

    Attributes:
        client_id: the name under which brokers know this client.
        pool: one connection per address.
        routes: topic → route.
        leaders: broker name → connection to its leader.
        spans: of messages, for OpenTelemetry; None when tracing is off.
    """

    def __init__(
        self, nameservers: Sequence[str], config: ClientConfig, on_request: ServerRequest
    ) -> None:
        """`on_request` is called with each request that a broker sends to this client."""
        self.config = config
        self.client_id = f"127.0.0.1@{os.getpid()}#{secrets.token_hex(4)}"
        self.pool = Pool(config, on_request)
        self.routes = Routes(nameservers, self.pool, config)
        self.leaders = Leaders(self.routes, self.pool, config)
        self.spans: ClientSpans | None = None
        if config.tracing is not None:
            from cluster.client.spans import ClientSpans as Spans  # needs the extra otel

            self.spans = Spans(config.tracing)
        self._member_numbers = itertools.count()
        self._topics: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.spawn(self._refresh_routes())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` in the background until it ends or the client is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_member_id(self) -> str:
        """A client id for one member of a group.

        Brokers share queues out by client id, so two consumers of one process need two ids.
        """
        return f"{self.client_id}.{next(self._member_numbers)}"

    def watch(self, topic: str) -> None:
        """Ask for the route of `topic` every `ClientConfig.route_period` seconds from now on."""
        self._topics.add(topic)

    async def close(self) -> None:
        """Cancel the background tasks, then close the connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.leaders.close()
        await self.pool.close()

    async def _refresh_routes(self) -> None:
        while True:  # until the client is closed
            await asyncio.sleep(self.config.route_period)
            for topic in list(self._topics):
                try:
                    await self.routes.refresh(topic)
                except ClusterError:
                    continue
            for broker_name in self.leaders.detours:
                self.leaders.ask_news(broker_name, DEFAULT_TOPIC)
