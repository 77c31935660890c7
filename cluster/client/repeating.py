"""One request to whoever leads a broker name.

    ask_leader   once
    Repeating    again until it is answered or its time is over: for requests that do no harm when
                 they come twice; what a repeat finds done is done

Whoever lets a request run out of time is suspected, so that the next one asks who leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.client.retry import Action, rule_for
from cluster.errors import ClusterError, ConnectionLost, Outcome
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.client import Client


async def ask_leader(
    client: Client,
    broker_name: str,
    topic: str,
    code: int,
    ext: Mapping[str, str],
    *,
    body: bytes = b"",
    look: bool = False,
) -> Frame:
    """The answer. `look`: ask first who leads. Raises ClusterError."""
    connection = await client.leaders.connection(broker_name, topic, look=look)
    try:
        return await connection.ask(code, ext, body, time_limit=client.config.request_timeout)
    except ConnectionLost:  # or no answer in time
        client.leaders.suspect(broker_name, connection.address)
        raise


class Repeating:
    """One request. `was_unsure`: some attempt ended without anybody knowing what it did."""

    def __init__(self, client: Client, queue: MessageQueue, *, time_limit: float) -> None:
        self._client, self._queue, self._time_limit = client, queue, time_limit
        self.was_unsure = False

    async def ask(
        self,
        code: int,
        ext: Mapping[str, str],
        *,
        body: bytes = b"",
        final: type[ClusterError] | None = None,
    ) -> Frame:
        """The answer. Raises the last failure, at once when it is not retriable or is `final`."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._time_limit
        look = False
        while True:  # ends with an answer, or `time_limit` seconds later
            try:
                return await self._ask_once(code, ext, body, look=look)
            except ClusterError as error:
                rule = rule_for(error)
                is_final = final is not None and type(error) is final
                if is_final or rule.action is Action.GIVE_UP or loop.time() >= ends_at:
                    raise
                self.was_unsure = self.was_unsure or error.outcome is Outcome.UNKNOWN
                look = rule.action is Action.FIND_LEADER
                await asyncio.sleep(max(rule.pause, self._client.config.retry_pause))

    async def _ask_once(
        self, code: int, ext: Mapping[str, str], body: bytes, *, look: bool
    ) -> Frame:
        place = self._queue.broker_name, self._queue.topic
        return await ask_leader(self._client, *place, code, ext, body=body, look=look)
