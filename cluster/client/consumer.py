"""Receives messages as a member of a group; `async for` gives one after the other.

    async with mq.consumer("orders", group="billing") as consumer:
        async for message in consumer:
            ...                          # done when the loop asks for the next message

A message whose body did not finish (the loop was left, the process died) comes again, to this
member or another one. With `manual_ack` a message counts when `ack(message)` is called. Within one
queue messages come in order.

A message that cannot be handled is given back: `nack(message)` lets the group have it again later
(10 s, 30 s, 1 min ...), and after `ConsumerConfig.max_attempts` it is kept apart, in the topic of
the group's dead letters, %DLQ%GROUP. `run(handler)` does this for every handler that raises.

`mq.reader("orders")` gives one without a group: it reads every queue by itself, from where
`ConsumerConfig.start` says, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cluster.client.config import ConsumerConfig
from cluster.client.group_admin import GroupAdmin, QueueLag
from cluster.client.handling import Handler, handle, handlers_ended
from cluster.client.message import ReceivedMessage
from cluster.client.places import offset_at
from cluster.client.puller import QueueReader
from cluster.client.queue_locks import RENEW_PERIOD
from cluster.client.ready import ReadyReaders
from cluster.client.standing import standing_of_member, standing_of_reader
from cluster.errors import ClientClosed, ClusterError, InvalidRequest
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.client import Client

HANDOVER_PAUSE = 0.2  # seconds: another member may be giving the queues up at this moment
RETRY_PAUSE = 0.2
ORDERED_PAUSE = 1.0  # seconds before an ordered message is handled again, as in RocketMQ

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
        is_reader: bool = False,
    ) -> None:
        if not isinstance(group, str):
            raise InvalidRequest(f"the group is {group!r:.40}; give its name as text")
        self.client, self.group, self.config = client, group, config
        self.held_bytes = 0
        self.is_closed = False
        self._topics = tuple(topics)
        standing_of = standing_of_reader if is_reader else standing_of_member
        standing = standing_of(self, topics)
        self.positions = standing.positions
        self._subscriptions, self._membership = standing.subscriptions, standing.membership
        self._returns, self._locks = standing.returns, standing.locks
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._ready = ReadyReaders(self._locks, self.rebalance_soon)
        self._rebalance = asyncio.Event()
        self._last: list[ReceivedMessage] = []  # handed out and not acked yet, but by us
        self.handler_failures = 0
        #: Tasks of `run` that are in their handler now, and with what.
        self.handling: dict[asyncio.Task[None], ReceivedMessage] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads now, sorted; without those of its retry topic."""
        return sorted(queue for queue in self._readers if queue.topic in self._topics)

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
        for topic in self._topics:
            await self.client.routes.refresh(topic)
        for topic in self._subscriptions:
            self.client.watch(topic)
        await self._membership.heartbeat()
        self._rebalance.set()
        heartbeat_period = self.client.config.heartbeat_period
        loops = [
            self._keep_rebalancing(),
            self._keep(self.config.commit_period, self._commit_and_ask, "positions are"),
            self._keep(heartbeat_period, self._membership.heartbeat, "a heartbeat is"),
        ]
        if self._locks is not None:
            loops.append(self._keep(RENEW_PERIOD, self._renew_locks, "locks are"))
        self._tasks = [asyncio.ensure_future(loop) for loop in loops]

    async def receive(self, time_limit: float | None = None) -> ReceivedMessage | None:
        """The next message, or None when none came within `time_limit` seconds.

        Unless `manual_ack` is set, asking for the next message acks the one before.

        Raises:
            ClientClosed: the consumer was closed.
        """
        for message in self._last:
            self.ack(message)
        self._last = []
        while not self._ready:
            self._check_open()
            if not await self._ready.arrival(time_limit):
                return None
        self._check_open()
        message = self._ready.take()
        if not self.config.manual_ack:
            self._last = [message]
        return message

    async def receive_many(
        self, count_max: int, time_limit: float | None = None
    ) -> list[ReceivedMessage]:
        """What is here already, at most `count_max`; waits `time_limit` seconds for the first.

        An empty list when none came in time. Unless `manual_ack` is set, asking for the next ones
        acks all of these. An ordered consumer gets one message of each queue.

        Raises:
            ClientClosed: the consumer was closed.
        """
        first = await self.receive(time_limit)
        if first is None:
            return []
        found = [first]
        while len(found) < count_max and self._ready:
            found.append(self._ready.take())
        self._last = [] if self.config.manual_ack else found
        return found

    def ack(self, message: ReceivedMessage) -> None:
        """The message is done with. Of a queue that moved to another member it has no effect."""
        reader = self._readers.get(message.queue)
        if reader is not None and reader.acks is not None:
            reader.acks.acked(message.queue_offset)
            self._ready.done(reader)

    async def nack(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """The message could not be handled: the group gets it again later; it counts as done here.

        An ordered consumer hands it out again itself, before any other of its queue, a second
        later.

        Args:
            delay_level: 0: after what the broker's levels say for so many attempts (10 s, 30 s,
                1 min, ... 2 h); 1 to 18: after that level; -1: it becomes a dead letter now.

        Raises:
            InvalidRequest: a reader and a broadcasting member have no group that could get it.
            ClusterError: the broker did not take it; it is not done, and comes again when the
                consumer starts anew, or say it again.
        """
        if self._returns is None:
            raise InvalidRequest("this consumer has no group to give it back to; use `seek`")
        self._last = [other for other in self._last if other is not message]
        is_last_attempt = message.attempt >= self.config.max_attempts
        if self._locks is not None and delay_level >= 0 and not is_last_attempt:
            reader = self._readers.get(message.queue)
            if reader is not None and self._ready.comes_back(reader, message):
                self.client.spawn(self._again(reader, message))
            return
        await self._returns.give_back(message, -1 if self._locks else delay_level)
        self.ack(message)

    def pass_over(self, message: ReceivedMessage) -> None:
        """Hand out what follows it, though it is not done: the position stays before it."""
        reader = self._readers.get(message.queue)
        if reader is not None:
            self._ready.done(reader)

    async def run(self, handler: Handler, *, concurrency: int = 1) -> None:
        """Handle messages until the consumer is closed or this call is cancelled.

        A handler that returns acks its message. One that raises is logged, counted in
        `handler_failures`, and its message is given back (see `nack`): no queue stands still, and
        no message is lost. One that is cancelled leaves its message to the group.

        Args:
            handler: an async function of one message.
            concurrency: so many handlers at once; messages of one queue may overtake each other
                unless the consumer is ordered.
        """
        await handle(self, handler, concurrency)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at another place of a queue; the group's position follows with the next commit.

        Messages in hand may still be acked; it has no effect. Raises InvalidRequest when the queue
        is not this member's, or the offset is negative.
        """
        reader = self._readers.get(queue)
        if reader is None or queue_offset < 0:
            raise InvalidRequest(
                f"cannot go to {queue_offset} of {queue}; see `assigned` for this member's queues"
            )
        reader.seek(queue_offset)
        self._ready.remove(reader)

    async def seek_to(self, place: int) -> dict[MessageQueue, int]:
        """Go on at another place of all queues of this member.

        Args:
            place: FIRST, LAST, or a time in ms since 1970: the first message stored then or later.

        Returns where each queue goes on. Raises ClusterError, having moved nothing.
        """
        queues = self.assigned
        found = await asyncio.gather(*(offset_at(self.client, queue, place) for queue in queues))
        targets = dict(zip(queues, found, strict=True))
        for queue, offset in targets.items():
            if queue in self._readers:  # it may have moved to another member meanwhile
                self.seek(queue, offset)
        return targets

    async def lag(self) -> Sequence[QueueLag]:
        """How far the whole group is behind, queue by queue, in messages and seconds.

        Positions of this member are stored first. Raises ClusterError.
        """
        await self.commit()
        return await GroupAdmin(self.client).lag(self.group)

    async def commit(self) -> None:
        """Store the positions now. Raises ClusterError when one could not be stored."""
        for reader in list(self._readers.values()):
            await reader.commit()

    async def close(self) -> None:
        """Store the positions and leave the group.

        Handlers of an ordered consumer come to their end first (10 s at most): nobody else may
        begin with their queues before.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._ready.wake()
        busy = set() if self._locks is None else await handlers_ended(self)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop(list(self._readers), busy)
        if self._tasks:
            await self._membership.leave()
        self.client.forget_consumer(self)

    # --- what readers and the client tell --------------------------------------------------------

    def arrived(self, reader: QueueReader) -> None:
        """A reader has messages."""
        self._ready.add(reader)

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

    def moved(self, offsets: Mapping[MessageQueue, int]) -> None:
        """An administrator moved the group: its positions are these now."""
        for queue, offset in offsets.items():
            if queue in self._readers and offset >= 0:
                self.seek(queue, offset)

    def leader_changed(self, broker_name: str) -> None:
        """The client learned of a new leader."""
        address = self.client.leaders.address(broker_name)
        for queue, reader in self._readers.items():
            if queue.broker_name == broker_name:
                reader.leader_changed(address)

    # --- inside ----------------------------------------------------------------------------------

    async def _again(self, reader: QueueReader, message: ReceivedMessage) -> None:
        """Hand an ordered message out once more; unless its queue moved, or is read elsewhere."""
        acks = reader.acks
        await asyncio.sleep(ORDERED_PAUSE)
        if reader.acks is acks and self._ready.is_coming_back(reader):
            reader.put_back(replace(message, reconsume_times=message.reconsume_times + 1))
            self._ready.done(reader)

    async def _renew_locks(self) -> None:
        assert self._locks is not None, "an ordered consumer has them"
        kept = await self._locks.lock(list(self._readers))
        lost = [queue for queue in self._readers if queue not in kept]
        if lost:
            _log.warning("%s: locks of %d queues are somebody else's now", self.group, len(lost))
            await self._stop(lost)
            self.rebalance_soon()
        for reader in self._readers.values():
            self._ready.add(reader)

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
        await self._stop(self._ready.that_leave(self._readers, mine))
        gained = [queue for queue in assigned if queue not in self._readers]
        if gained and not is_alone:
            await asyncio.sleep(HANDOVER_PAUSE)
        locked = set(gained) if self._locks is None else await self._locks.lock(gained)
        for queue in gained:
            if queue in locked:
                subscription = self._subscriptions[queue.topic]
                self._readers[queue] = QueueReader(self, queue, subscription)
        return len(locked) == len(gained)

    async def _stop(
        self, queues: list[MessageQueue], still_handled: Collection[MessageQueue] = ()
    ) -> None:
        """`still_handled`: their locks end by themselves, after what a handler may take at most."""
        readers = [self._readers.pop(queue) for queue in queues]
        for reader in readers:
            self._ready.remove(reader)
        await asyncio.gather(*(reader.stop() for reader in readers))
        if self._locks is not None:
            await self._locks.unlock([queue for queue in queues if queue not in still_handled])

    async def _keep(self, period: float, work: Callable[[], Awaitable[None]], what: str) -> None:
        while True:  # until the consumer is closed
            await asyncio.sleep(period)
            try:
                await work()
            except ClusterError as error:
                _log.info("%s: %s sent again later: %s", self.group, what, error)

    async def _commit_and_ask(self) -> None:
        try:
            await self.commit()
        finally:
            for queue in self._readers:
                self.client.leaders.ask_news(queue.broker_name, queue.topic)
