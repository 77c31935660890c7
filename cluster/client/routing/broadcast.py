"""One request to every replica of the brokers of some topics, some of which may be down.

Followers get it, too: a follower that becomes the leader must already know the connected clients
(docs/spec/remoting.md 4.5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from cluster.client.routing.client_instance import ClientInstance
from cluster.errors import ClusterError, NotConnected
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import UnregisterClientRequest, encode
from cluster.protocol.heartbeat import HeartbeatData, encode_heartbeat

_log = logging.getLogger(__name__)


class BrokerBroadcast:
    """Sends heartbeats and goodbyes to all replicas that the routes of `topics` name."""

    def __init__(self, instance: ClientInstance, topics: Collection[str]) -> None:
        """`topics` is read at each request, so its owner may add to it."""
        self._instance, self._topics = instance, topics

    async def heartbeat(self, heartbeat: HeartbeatData) -> None:
        """Send request 34; one replica that takes it is enough.

        Raises:
            NotConnected: no replica could be reached.
            ClusterError: all replicas refused, and asking again would not help.
        """
        body = encode_heartbeat(heartbeat)
        addresses = self._addresses()
        results = await asyncio.gather(
            *(self._send(address, RequestCode.HEART_BEAT, EMPTY, body) for address in addresses)
        )
        if None in results:
            return
        for error in results:
            if error is not None and not error.retriable:
                raise error
        raise NotConnected(f"no broker took the heartbeat ({', '.join(addresses) or 'no route'})")

    async def leave(self, request: UnregisterClientRequest) -> None:
        """Send request 35. A replica that misses it forgets the client by itself after 120 s."""
        ext = encode(request)
        await asyncio.gather(
            *(
                self._send(address, RequestCode.UNREGISTER_CLIENT, ext, b"")
                for address in self._addresses()
            )
        )

    def _addresses(self) -> list[str]:
        names = {
            data.broker_name
            for topic in self._topics
            if (route := self._instance.routes.known(topic)) is not None
            for data in route.brokers
        }
        brokers = self._instance.routes.brokers
        addresses = [
            address
            for name in sorted(names)
            if name in brokers
            for address in brokers[name].addresses.values()
        ]
        return list(dict.fromkeys(addresses))

    async def _send(
        self, address: str, code: int, ext: Mapping[str, str], body: bytes
    ) -> ClusterError | None:
        """Send one request to one replica; returns its failure, None after a success."""
        try:
            connection = await self._instance.pool.get(address)
            await connection.ask(code, ext, body, time_limit=self._instance.config.request_timeout)
        except ClusterError as error:
            _log.debug("%s did not take request %d: %s", address, code, error)
            return error
        return None
