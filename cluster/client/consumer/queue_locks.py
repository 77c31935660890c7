"""Locks of ordered queues (requests 41 and 42): one member of the group holds each.

The broker's lease is 60 s, and the member renews it every 20 s. A lease that was not renewed for
30 s counts as lost here, so that this member stops before another member may begin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.errors import ClusterError
from cluster.protocol.codes import RequestCode
from cluster.protocol.json_body import ROWS_COUNT_MAX, MessageQueue, dump, read_answer

RENEW_PERIOD = 20.0
TRUSTED_SECONDS = 30.0

_log = logging.getLogger(__name__)


class QueueLocks:
    """The queue locks of one member."""

    def __init__(self, instance: ClientInstance, group: str, client_id: str) -> None:
        self._instance, self._group, self._client_id = instance, group, client_id
        self._renewed: dict[MessageQueue, float] = {}

    def is_held(self, queue: MessageQueue) -> bool:
        """True if no other member can hold the lock of `queue` at this moment."""
        renewed = self._renewed.get(queue)
        now = asyncio.get_running_loop().time()
        return renewed is not None and now - renewed < TRUSTED_SECONDS

    async def lock(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Take or renew locks. Returns the queues that are locked now. Raises ClusterError."""
        found: set[MessageQueue] = set()
        for name, own in _by_broker(queues):
            asked_at = asyncio.get_running_loop().time()
            body = await self._ask(name, RequestCode.LOCK_BATCH_MQ, own)
            rows = read_answer(body, "locks").get("lockOKMQSet") or ()
            held = {MessageQueue.from_json(row) for row in rows}
            found |= held
            self._renewed |= dict.fromkeys(held, asked_at)
        for queue in queues:
            if queue not in found:
                self._renewed.pop(queue, None)
        return found

    async def unlock(self, queues: Sequence[MessageQueue]) -> None:
        """Give locks up. If a broker cannot be reached, its leases expire by themselves."""
        for queue in queues:
            self._renewed.pop(queue, None)
        for name, own in _by_broker(queues):
            try:
                await self._ask(name, RequestCode.UNLOCK_BATCH_MQ, own)
            except ClusterError as error:
                _log.info("locks of %s end by themselves: %s", self._group, error)

    async def _ask(self, broker: str, code: int, queues: Sequence[MessageQueue]) -> bytes:
        body = dump(
            {
                "clientId": self._client_id,
                "consumerGroup": self._group,
                "mqSet": [queue.to_json() for queue in queues],
            }
        )
        topic = queues[0].topic
        answer = await ask_leader(self._instance, broker, topic, code, {}, body=body)
        return answer.body


def _by_broker(queues: Sequence[MessageQueue]) -> list[tuple[str, list[MessageQueue]]]:
    """Broker names, each with as many queues as one request may have; a name may come again."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return [
        (name, own[at : at + ROWS_COUNT_MAX])
        for name, own in found.items()
        for at in range(0, len(own), ROWS_COUNT_MAX)
    ]
