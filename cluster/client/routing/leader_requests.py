"""One request to the leader of a broker name.

    ask_leader         sends it once
    RetryingRequest    sends it again until an answer comes or its time is over; for requests that
                       a broker may execute twice without harm

A leader that lets a request run out of time becomes a suspect, so the next request asks the name
servers first. So it does after a refusal of a node that is not the leader, or knows none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.on_behalf import told
from cluster.client.routing.retry_rules import Action, rule_for
from cluster.errors import ClusterError, ConnectionLost, Outcome
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import MessageQueue


async def ask_leader(
    instance: ClientInstance,
    broker_name: str,
    topic: str,
    code: int,
    ext: Mapping[str, str],
    *,
    body: bytes = b"",
    look: bool = False,
) -> Frame:
    """The leader's answer to one request.

    Args:
        topic: its route names the leader.
        look: ask the name servers for the leader first.

    Raises:
        ClusterError: the leader refused, or no replica could be reached.
    """
    connection = await instance.leaders.connection(broker_name, topic, look=look)
    try:
        return await connection.ask(
            code, told(ext), body, time_limit=instance.config.request_timeout
        )
    except ConnectionLost:  # or no answer in time
        instance.leaders.suspect(broker_name, connection.address)
        raise
    except ClusterError as error:
        if rule_for(error).action is Action.FIND_LEADER:
            instance.leaders.doubt(broker_name)
        raise


class RetryingRequest:
    """One request to the leader of a queue's broker name, sent until it is answered.

    Attributes:
        was_unsure: some attempt ended without an answer, so the leader may have executed it.
    """

    def __init__(self, instance: ClientInstance, queue: MessageQueue, *, time_limit: float) -> None:
        """`time_limit`: seconds for all attempts together."""
        self._instance, self._queue, self._time_limit = instance, queue, time_limit
        self.was_unsure = False

    async def ask(
        self,
        code: int,
        ext: Mapping[str, str],
        *,
        body: bytes = b"",
        final: type[ClusterError] | None = None,
    ) -> Frame:
        """The answer to the first attempt that gets one.

        Args:
            final: an error of exactly this class ends the attempts, too.

        Raises:
            ClusterError: the last failure; at once when it is not retriable or is `final`.
        """
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
                await asyncio.sleep(max(rule.pause, self._instance.config.retry_pause))

    async def _ask_once(
        self, code: int, ext: Mapping[str, str], body: bytes, *, look: bool
    ) -> Frame:
        queue = self._queue
        return await ask_leader(
            self._instance, queue.broker_name, queue.topic, code, ext, body=body, look=look
        )
