"""Keeps one consumer's queue readers in step with its share of the queues.

A rebalance asks for the share, stops readers of queues that moved to another member, and starts
readers of new queues. It happens when a member joins or leaves, and each `rebalance_period`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from cluster.client.consumer.consumer_model import ConsumerModel
from cluster.client.consumer.queue_reader import QueueReader, ReaderContext
from cluster.client.consumer.ready_readers import ReadyReaders
from cluster.client.routing.retry_rules import is_final
from cluster.errors import ClusterError
from cluster.protocol.json_body import MessageQueue

HANDOVER_PAUSE = 0.2  # seconds; another member may be giving the queues up at this moment
RETRY_PAUSE = 0.2

_log = logging.getLogger(__name__)


class Rebalancer:
    """The queue readers of one consumer.

    Attributes:
        readers: queue → its reader, for the queues of this consumer's share.
    """

    def __init__(self, model: ConsumerModel, context: ReaderContext, ready: ReadyReaders) -> None:
        self.readers: dict[MessageQueue, QueueReader] = {}
        self._subscriptions, self._assignment = model.subscriptions, model.assignment
        self._locks = model.locks
        self._context, self._ready = context, ready
        self._is_due = asyncio.Event()

    def soon(self) -> None:
        """Rebalance soon: a member has joined or left, or a queue may move now."""
        self._is_due.set()

    async def run(self) -> None:
        """Rebalance until the task is cancelled."""
        while True:  # until the consumer is closed
            try:
                async with asyncio.timeout(self._context.config.rebalance_period):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            self._is_due.clear()
            try:
                is_settled = await self._rebalance()
            except ClusterError as error:
                if is_final(error):
                    self._ready.refuse(error)
                _log.info("%s cannot rebalance now: %s", self._context.group, error)
                is_settled = False
            if not is_settled:
                await asyncio.sleep(RETRY_PAUSE)
                self._is_due.set()

    async def renew_locks(self) -> None:
        """Renew the locks of an ordered consumer; stop reading the queues of lost locks."""
        assert self._locks is not None, "an ordered consumer has them"
        kept = await self._locks.lock(list(self.readers))
        lost = [queue for queue in self.readers if queue not in kept]
        if lost:
            group = self._context.group
            _log.warning("%s: locks of %d queues are somebody else's now", group, len(lost))
            await self.stop(lost)
            self.soon()
        for reader in self.readers.values():
            self._ready.add(reader)

    async def stop(
        self, queues: list[MessageQueue], still_handled: Collection[MessageQueue] = ()
    ) -> None:
        """Stop reading `queues`. Locks of those `still_handled` are kept until they expire."""
        readers = [self.readers.pop(queue) for queue in queues]
        for reader in readers:
            reader.halt()
            self._ready.remove(reader)
        await asyncio.gather(*(reader.stop() for reader in readers))
        if self._locks is not None:
            await self._locks.unlock([queue for queue in queues if queue not in still_handled])

    async def _rebalance(self) -> bool:
        """Take the queues of this consumer's share; False if that must be tried again."""
        found = await self._assignment.assignment()
        if found is None:
            await self._assignment.heartbeat()
            return False
        assigned, is_alone = found
        await self.stop(self._ready.that_leave(self.readers, set(assigned)))
        gained = [queue for queue in assigned if queue not in self.readers]
        if gained and not is_alone:
            await asyncio.sleep(HANDOVER_PAUSE)
        locked = set(gained) if self._locks is None else await self._locks.lock(gained)
        for queue in gained:
            if queue in locked:
                subscription = self._subscriptions[queue.topic]
                self.readers[queue] = QueueReader(self._context, queue, subscription)
        return len(locked) == len(gained)
