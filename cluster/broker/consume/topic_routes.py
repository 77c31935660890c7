"""Queues of a topic on every broker name, as the name servers know them; kept for a moment.

An assignment (400) is of all queues of a topic, also of those that other groups of replicas hold.
Without name servers, or while none can be reached, it is of this broker name's queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.broker.config import BrokerConfig
from cluster.broker.registration import NameServerLink
from cluster.core.topics import PERM_READ, TopicTable
from cluster.errors import RemoteProtocolError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import RouteRequest, encode
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import decode_route
from dledger.runtime.owned import Owned

KEPT_SECONDS = 5.0  # members ask every 20 s, each for itself; a queue more is seen so much later
TOPICS_MAX = 10_000  # that are remembered

_log = logging.getLogger(__name__)

Then = Callable[[list[MessageQueue]], None]


class TopicRoutes:
    """One per broker."""

    def __init__(self, config: BrokerConfig, topics: TopicTable, owned: Owned) -> None:
        self._config, self._topics, self._owned = config, topics, owned
        self._known: dict[str, tuple[float, list[MessageQueue]]] = {}
        self._waiting: dict[str, list[Then]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, topic: str, then: Then) -> None:
        """`then(queues)`, now or when a name server has answered; sorted, empty for no topic."""
        known = self._known.get(topic)
        if known is not None and known[0] > self._owned.time():
            then(known[1])
        elif not self._config.name_servers:
            then(self._own(topic))
        elif topic in self._waiting:
            self._waiting[topic].append(self._owned.bound(then))
        else:
            self._waiting[topic] = [self._owned.bound(then)]
            task = self._owned.create_task(self._ask(topic))
            self._tasks.add(task)
            self._owned.when_done(task, self._tasks.discard)

    def close(self) -> None:
        """Cancel the requests under way."""
        for task in self._tasks:
            task.cancel()

    async def _ask(self, topic: str) -> None:
        queues = await self._registered(topic)
        if len(self._known) >= TOPICS_MAX:
            self._known.clear()
        self._known[topic] = (self._owned.time() + KEPT_SECONDS, queues)
        for then in self._waiting.pop(topic):
            then(queues)

    async def _registered(self, topic: str) -> list[MessageQueue]:
        for address in self._config.name_servers:
            server = NameServerLink(self._config, address)
            question = Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, {**encode(RouteRequest(topic))})
            try:
                answer = await server.ask(question._replace(version=401))
                if answer.code == 0:
                    return decode_route(answer.body).read_queues(topic)
            except (OSError, TimeoutError, RemoteProtocolError, EOFError, ValueError) as error:
                _log.info("name server %s: %s", address, error)
            finally:
                server.close()
        return self._own(topic)

    def _own(self, topic: str) -> list[MessageQueue]:
        row = self._topics.get(topic)
        if row is None or not row.perm & PERM_READ:
            return []
        name = self._config.broker_name
        return [MessageQueue(topic, name, number) for number in range(row.read_queues)]
