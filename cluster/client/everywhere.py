"""The same request to every replica of some topics' broker names; some of them may be down.

Followers are told, too: they know who is connected when they come to lead (docs/spec/remoting.md
4.5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from cluster.errors import ClusterError, NotConnected
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import UnregisterClientRequest, encode
from cluster.protocol.heartbeat import HeartbeatData, encode_heartbeat

if TYPE_CHECKING:
    from cluster.client.client import Client

_log = logging.getLogger(__name__)


class Everywhere:
    """`topics`: whose brokers; may grow."""

    def __init__(self, client: Client, topics: Collection[str]) -> None:
        self._client, self._topics = client, topics

    async def heartbeat(self, heartbeat: HeartbeatData) -> None:
        """34.

        Raises:
            NotConnected: none could be reached.
            ClusterError: all refused, and asking again would not help.
        """
        body = encode_heartbeat(heartbeat)
        places = self._addresses()
        results = await asyncio.gather(
            *(self._tell(place, RequestCode.HEART_BEAT, EMPTY, body) for place in places)
        )
        if None in results:
            return
        for error in results:
            if error is not None and not error.retriable:
                raise error
        raise NotConnected(f"no broker took the heartbeat ({', '.join(places) or 'no route'})")

    async def leave(self, request: UnregisterClientRequest) -> None:
        """35."""
        ext = encode(request)
        await asyncio.gather(
            *(
                self._tell(place, RequestCode.UNREGISTER_CLIENT, ext, b"")
                for place in self._addresses()
            )
        )

    def _addresses(self) -> list[str]:
        names = {
            data.broker_name
            for topic in self._topics
            if (route := self._client.routes.known(topic)) is not None
            for data in route.brokers
        }
        brokers = self._client.routes.brokers
        places = [
            address
            for name in sorted(names)
            if name in brokers
            for address in brokers[name].addresses.values()
        ]
        return list(dict.fromkeys(places))

    async def _tell(
        self, address: str, code: int, ext: Mapping[str, str], body: bytes
    ) -> ClusterError | None:
        """One request to one replica; what went wrong with it, None for nothing."""
        try:
            connection = await self._client.pool.get(address)
            await connection.ask(code, ext, body, time_limit=self._client.config.request_timeout)
        except ClusterError as error:
            _log.debug("%s did not take request %d: %s", address, code, error)
            return error
        return None
