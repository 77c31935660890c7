"""Receives messages as a member of a group; `async for` gives one after the other.

    async with mq.consumer("orders", group="billing") as consumer:
        async for message in consumer:
            ...                          # done when the loop asks for the next message

A message whose body did not finish (the loop was left, the process died) comes again, to this
member or another one. With `manual_ack` a message counts when `ack(message)` is called. Within one
queue messages come in order.

`mq.reader("orders")` gives one without a group: it reads every queue by itself, from where
`ConsumerConfig.start` says, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from cluster.client.config import ConsumerConfig
from cluster.client.membership import Alone, Membership
from cluster.client.message import ReceivedMessage
from cluster.client.puller import QueueReader
from cluster.errors import ClientClosed, ClusterError, InvalidRequest
from cluster.protocol.heartbeat import Subscription
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.client import Client

HANDOVER_PAUSE = 0.2
"""Seconds before reading queues that another member may be giving up at this moment."""

RETRY_PAUSE = 0.2

_log = logging.getLogger(__name__)


class Consumer:
    """Made by `Client.consumer` or `Client.reader`; use it with `async with`."""

    def __init__(
        self,
        client: Client,
        topics: Sequence[str],
        group: str,
        config: ConsumerConfig,
        *,
        keeps_positions: bool = True,
    ) -> None:
        if not isinstance(group, str):
            raise InvalidRequest(f"the group is {group!r:.40}; give its name as text")
        self.client, self.group, self.config = client, group, config
        self.keeps_positions = keeps_positions
        self.held_bytes = 0
        self.is_closed = False
        version = int(time.time() * 1000)
        self._subscriptions = {
            topic: Subscription.of_tags(topic, config.tags, version) for topic in topics
        }
        self._membership: Membership | Alone = (
            Membership(self, self._subscriptions)
            if keeps_positions
            else Alone(self, self._subscriptions)
        )
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._ready: deque[QueueReader] = deque()
        self._arrival = asyncio.Event()
        self._rebalance = asyncio.Event()
        self._last: ReceivedMessage | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads now, sorted."""
        return sorted(self._readers)

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        try:
            message = await self.receive()
        except ClientClosed:
            raise StopAsyncIteration from None
        assert message is not None, "without a limit there is always a message"
        return message

    async def start(self) -> None:
        """Join the group and begin to read.

        Raises:
            TopicNotFound: a topic does not exist; create it first.
            NotConnected: nobody can be reached.
        """
        for topic in self._subscriptions:
            await self.client.routes.refresh(topic)
            self.client.watch(topic)
        await self._membership.heartbeat()
        self._rebalance.set()
        self._tasks = [
            asyncio.ensure_future(self._keep_rebalancing()),
            asyncio.ensure_future(self._keep_committing()),
            asyncio.ensure_future(self._keep_alive()),
        ]

    async def receive(self, time_limit: float | None = None) -> ReceivedMessage | None:
        """The next message, or None when none came within `time_limit` seconds.

        Unless `manual_ack` is set, asking for the next message acks the one before.

        Raises:
            ClientClosed: the consumer was closed.
        """
        if self._last is not None:
            self.ack(self._last)
            self._last = None
        while not self._ready:
            self._check_open()
            self._arrival.clear()
            try:
                async with asyncio.timeout(time_limit):
                    await self._arrival.wait()
            except TimeoutError:
                return None
        self._check_open()
        reader = self._ready[0]
        message = reader.take()
        if not reader.buffer:
            self._ready.popleft()
        if not self.config.manual_ack:
            self._last = message
        return message

    def ack(self, message: ReceivedMessage) -> None:
        """The message is done with. Of a queue that moved to another member it has no effect."""
        reader = self._readers.get(message.queue)
        if reader is not None and reader.acks is not None:
            reader.acks.acked(message.queue_offset)

    async def commit(self) -> None:
        """Store the positions now. Raises ClusterError when one could not be stored."""
        for reader in list(self._readers.values()):
            await reader.commit()

    async def close(self) -> None:
        """Store the positions and leave the group."""
        if self.is_closed:
            return
        self.is_closed = True
        self._arrival.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop(list(self._readers))
        if self._tasks:
            await self._membership.leave()
        self.client.forget_consumer(self)

    # --- what readers and the client tell --------------------------------------------------------

    def arrived(self, reader: QueueReader) -> None:
        """A reader has messages."""
        if reader not in self._ready:
            self._ready.append(reader)
        self._arrival.set()

    def held(self, size: int) -> None:
        """So many bytes more (or less) are held."""
        was_full = self.held_bytes >= self.config.ahead_bytes_max
        self.held_bytes += size
        if was_full and self.held_bytes < self.config.ahead_bytes_max:
            for reader in self._readers.values():
                reader.wake()

    def rebalance_soon(self) -> None:
        """Somebody joined or left."""
        self._rebalance.set()

    def leader_changed(self, broker_name: str) -> None:
        """The client learned of a new leader."""
        address = self.client.leaders.address(broker_name)
        for queue, reader in self._readers.items():
            if queue.broker_name == broker_name:
                reader.leader_changed(address)

    # --- inside ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("the consumer is closed; make another one")

    async def _keep_rebalancing(self) -> None:
        while True:  # until the consumer is closed
            try:
                async with asyncio.timeout(self.config.rebalance_period):
                    await self._rebalance.wait()
            except TimeoutError:
                pass
            self._rebalance.clear()
            try:
                is_settled = await self._rebalance_once()
            except ClusterError as error:
                _log.info("%s cannot rebalance now: %s", self.group, error)
                is_settled = False
            if not is_settled:
                await asyncio.sleep(RETRY_PAUSE)
                self._rebalance.set()

    async def _rebalance_once(self) -> bool:
        """Follow the group's members; False when it must be tried again."""
        found = await self._membership.assignment()
        if found is None:
            await self._membership.heartbeat()
            return False
        assigned, is_alone = found
        mine = set(assigned)
        lost = [queue for queue in self._readers if queue not in mine]
        await self._stop(lost)
        gained = [queue for queue in assigned if queue not in self._readers]
        if gained and not is_alone:
            await asyncio.sleep(HANDOVER_PAUSE)
        for queue in gained:
            subscription = self._subscriptions[queue.topic]
            self._readers[queue] = QueueReader(self, queue, subscription)
        return True

    async def _stop(self, queues: list[MessageQueue]) -> None:
        readers = [self._readers.pop(queue) for queue in queues]
        for reader in readers:
            if reader in self._ready:
                self._ready.remove(reader)
        await asyncio.gather(*(reader.stop() for reader in readers))

    async def _keep_committing(self) -> None:
        while True:  # until the consumer is closed
            await asyncio.sleep(self.config.commit_period)
            try:
                await self.commit()
            except ClusterError as error:
                _log.info("%s: positions are sent again later: %s", self.group, error)
            for queue in self._readers:
                self.client.leaders.ask_news(queue.broker_name, queue.topic)

    async def _keep_alive(self) -> None:
        while True:  # until the consumer is closed
            await asyncio.sleep(self.client.config.heartbeat_period)
            try:
                await self._membership.heartbeat()
            except ClusterError as error:
                _log.info("%s: the heartbeat is sent again later: %s", self.group, error)
