"""Receives messages as a member of a group; `async for` gives one after the other.

    async with mq.consumer("orders", group="billing") as consumer:
        async for message in consumer:
            ...                  # acknowledged when the loop asks for the next message

If the body of the loop does not finish (the loop was left, the process died), the message comes
again, to this member or another one. With `manual_ack` a message is done when `ack(message)` is
called. Messages of one queue come in order.

A message that cannot be handled is given back: after `nack(message)` the group gets it again later
(10 s, 30 s, 1 min ...), and after `ConsumerConfig.max_attempts` it becomes a dead letter, in the
topic %DLQ%GROUP. `run(handler)` does this for every handler that raises.

`mq.reader("orders")` gives a consumer without a group: it reads every queue by itself, from the
offset that `ConsumerConfig.start` names, and stores no offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from cluster.client.admin.group_admin import GroupAdmin, QueueLag
from cluster.client.config import ConsumerConfig
from cluster.client.consumer.consumer_model import member_model, reader_model
from cluster.client.consumer.hand import Hand
from cluster.client.consumer.handlers import Handler, HandlerRunner, MessageActions, check_level
from cluster.client.consumer.queue_locks import RENEW_PERIOD
from cluster.client.consumer.queue_reader import QueueReader, ReadAhead, ReaderContext
from cluster.client.consumer.ready_readers import ReadyReaders
from cluster.client.consumer.rebalance import Rebalancer
from cluster.client.message import ReceivedMessage
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.offset_lookup import offset_at
from cluster.client.routing.retry_rules import is_final
from cluster.errors import ClientClosed, ClusterError, InvalidRequest
from cluster.protocol.json_body import MessageQueue

ORDERED_PAUSE = 1.0  # seconds before an ordered message is handled again, as in RocketMQ

_log = logging.getLogger(__name__)


class Consumer:
    """Made by `Client.consumer` or `Client.reader`; use it with `async with`."""

    def __init__(
        self,
        instance: ClientInstance,
        topics: Sequence[str],
        group: str,
        config: ConsumerConfig,
        *,
        is_reader: bool,
        on_close: Callable[[Consumer], object],
    ) -> None:
        """`on_close` is called when the consumer is closed."""
        if not isinstance(group, str):
            raise InvalidRequest(f"the group is {group!r:.40}; give its name as text")
        self.group, self.config = group, config
        self.is_closed = False
        self._instance, self._on_close = instance, on_close
        self._topics = tuple(topics)
        model = (
            reader_model(instance, topics, config)
            if is_reader
            else member_model(instance, topics, group, config)
        )
        self._subscriptions, self._membership = model.subscriptions, model.assignment
        self._send_back, self._locks = model.send_back, model.locks
        self._ready = ReadyReaders(self._locks, self.rebalance_soon)
        self._ahead = ReadAhead(config.ahead_bytes_max, self._wake_readers)
        context = ReaderContext(
            instance,
            group,
            config,
            model.offsets,
            self._ahead,
            self._ready.add,
            self._ready.refuse,
        )
        self._rebalancer = Rebalancer(model, context, self._ready)
        self._readers = self._rebalancer.readers
        self._hand = Hand(
            self._ready, acks_itself=not config.manual_ack, is_ordered=self._locks is not None
        )
        actions = MessageActions(self.receive, self.ack, self.nack, self.pass_over)
        retries = self._send_back is not None
        self._handlers = HandlerRunner(group, config.max_attempts, actions, retries=retries)
        self._tasks: list[asyncio.Task[None]] = []
        self._spans = None if instance.spans is None else instance.spans.of_consumer(group)

    @property
    def handler_failures(self) -> int:
        """How many handlers of `run` have raised."""
        return self._handlers.failures

    @property
    def held_bytes(self) -> int:
        """Bytes of messages that were read ahead and not handed out yet."""
        return self._ahead.size + self._hand.size

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads now, sorted, without those of its retry topic."""
        return sorted(queue for queue in self._readers if queue.topic in self._topics)

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        hand = self._hand
        if not self.is_closed and hand.fill():  # the usual case, without one more coroutine
            return hand.give() if self._spans is None else self._traced(hand.give())
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
            NotConnected: no name server or no broker can be reached.
        """
        for topic in self._topics:
            await self._instance.routes.refresh(topic)
        for topic in self._subscriptions:
            self._instance.watch(topic)
        await self._membership.heartbeat()
        self._rebalancer.soon()
        heartbeat_period = self._instance.config.heartbeat_period
        loops = [
            self._rebalancer.run(),
            self._keep(self.config.commit_period, self._commit_and_ask, "positions are"),
            self._keep(heartbeat_period, self._membership.heartbeat, "a heartbeat is"),
        ]
        if self._locks is not None:
            loops.append(self._keep(RENEW_PERIOD, self._rebalancer.renew_locks, "locks are"))
        self._tasks = [asyncio.ensure_future(loop) for loop in loops]

    async def receive(self, time_limit: float | None = None) -> ReceivedMessage | None:
        """The next message, or None if none came within `time_limit` seconds.

        Unless `manual_ack` is set, asking for the next message acks the one before.

        Raises:
            ClientClosed: the consumer was closed.
            Unauthorized: this account may not read, and was never served. Calling again asks again.
            SubscriptionInvalid: the broker cannot read the filter.
        """
        found = await self.receive_many(1, time_limit)
        return found[0] if found else None

    async def receive_many(
        self, count_max: int, time_limit: float | None = None
    ) -> list[ReceivedMessage]:
        """The messages that were read ahead, at most `count_max`.

        Waits `time_limit` seconds for the first one; the list is empty if none came. Unless
        `manual_ack` is set, asking for the next messages acks all of these. An ordered consumer
        gets one message of each queue.

        Raises:
            ClientClosed: the consumer was closed.
        """
        hand = self._hand
        hand.ack_last()
        self._acked_by_asking()
        while self.is_closed or not (found := hand.take(count_max)):
            self._check_open()
            if self._ready.refusal is not None:
                raise self._ready.refusal
            if not await self._ready.arrival(time_limit):
                return []
        if self._spans is not None:
            found = [self._spans.given(message) for message in found]
        return found

    def ack(self, message: ReceivedMessage) -> None:
        """Acknowledge a message. It has no effect if the queue has moved to another member."""
        if self._spans is not None:
            self._spans.done(message)
        reader = self._readers.get(message.queue)
        if reader is not None and reader.acks is not None:
            reader.acks.acked(message.queue_offset)
            self._ready.done(reader)

    async def nack(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Give back a message that could not be handled: the group gets it again later.

        It is done here, like after `ack`. An ordered consumer instead hands it out again itself, a
        second later and before any other message of its queue.

        Args:
            delay_level: 0: after the broker's level for the number of attempts (10 s, 30 s, 1 min,
                ... 2 h); 1 to 18: after that level; -1: it becomes a dead letter now.

        Raises:
            InvalidRequest: there is no such level, or no group that could get it (a reader's).
            ClusterError: the broker did not take it. Call again, or the message comes again when
                the consumer starts anew.
        """
        check_level(delay_level)
        if self._send_back is None:
            raise InvalidRequest("this consumer has no group to give it back to; use `seek`")
        self._hand.forget(message)
        if self._spans is not None:
            self._spans.done(message, "given back")
        is_last_attempt = message.attempt >= self.config.max_attempts
        if self._locks is not None and delay_level >= 0 and not is_last_attempt:
            reader = self._readers.get(message.queue)
            if reader is not None and self._ready.comes_back(reader, message):
                self._instance.spawn(self._again(reader, message))
            return
        await self._send_back.send_back(message, -1 if self._locks else delay_level)
        self.ack(message)

    def pass_over(self, message: ReceivedMessage) -> None:
        """Hand out later messages of its queue, with the group's offset still before this one."""
        if (reader := self._readers.get(message.queue)) is not None:
            self._ready.done(reader)

    async def run(self, handler: Handler, *, concurrency: int = 1) -> None:
        """Handle messages until the consumer is closed or this call is cancelled.

        A handler that returns acks its message. If a handler raises, the error is logged and
        counted in `handler_failures`, and the message is given back (see `nack`): no queue stops,
        and no message is lost. A broadcasting member retries nothing, so there the message is
        acked. A handler that is cancelled leaves its message to the group.

        Args:
            handler: an async function of one message.
            concurrency: how many handlers run at once; messages of one queue may overtake each
                other unless the consumer is ordered.

        Raises:
            InvalidRequest: `manual_ack` is not set, or `concurrency` is below 1.
        """
        if not self.config.manual_ack:
            raise InvalidRequest("run acknowledges by itself; set ConsumerConfig(manual_ack=True)")
        if concurrency < 1:
            raise InvalidRequest(f"{concurrency} handlers at once are impossible; give at least 1")
        traced = handler if self._spans is None else self._spans.around(handler)
        await self._handlers.run(traced, concurrency)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at another offset of a queue; the group's offset follows with the next commit.

        Acknowledging a message that was received before has no effect any more.

        Raises:
            InvalidRequest: the queue is not this member's, or the offset is negative or no int.
        """
        reader = self._readers.get(queue)
        if reader is None or not isinstance(queue_offset, int) or queue_offset < 0:
            raise InvalidRequest(
                f"cannot go to {queue_offset!r} of {queue}; see `assigned` for this member's queues"
            )
        reader.seek(queue_offset)
        self._ready.remove(reader)

    async def seek_to(self, place: int) -> dict[MessageQueue, int]:
        """Go on at another place of all queues of this member.

        Args:
            place: FIRST, LAST, or a time in ms since 1970, which stands for the first message
                stored then or later.

        Returns the offset at which each queue goes on.

        Raises:
            ClusterError: an offset could not be looked up, and no queue was moved.
        """
        queues = self.assigned
        found = await asyncio.gather(*(offset_at(self._instance, queue, place) for queue in queues))
        targets = dict(zip(queues, found, strict=True))
        for queue, offset in targets.items():
            if queue in self._readers:  # the queue may have moved to another member meanwhile
                self.seek(queue, offset)
        return targets

    async def lag(self) -> Sequence[QueueLag]:
        """How far the whole group is behind, queue by queue, in messages and seconds.

        Stores the offsets of this member first. Raises ClusterError.
        """
        await self.commit()
        return await GroupAdmin(self._instance).lag(self.group)

    async def commit(self) -> None:
        """Store the offsets now. Raises ClusterError if one could not be stored."""
        for reader in list(self._readers.values()):
            await reader.commit()

    async def close(self) -> None:
        """Store the offsets and leave the group.

        An ordered consumer waits for its handlers first (10 s at most), because another member
        must not begin with their queues before.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._handlers.stop()
        self._ready.wake()
        busy = set() if self._locks is None else await self._handlers.wait_until_ended()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._rebalancer.stop(list(self._readers), busy)
        if self._spans is not None:
            self._spans.all_done()
        if self._tasks:
            await self._membership.leave()
        self._on_close(self)

    # --- for the client --------------------------------------------------------------------------

    def rebalance_soon(self) -> None:
        """Compute this member's queues anew: a member has joined or left the group."""
        self._rebalancer.soon()

    def moved(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets, to which an administrator has moved the group."""
        for queue, offset in offsets.items():
            if queue in self._readers and offset >= 0:
                self.seek(queue, offset)

    def leader_changed(self, broker_name: str) -> None:
        """Pull from the new leader of `broker_name`."""
        address = self._instance.leaders.address(broker_name)
        for queue, reader in self._readers.items():
            if queue.broker_name == broker_name:
                reader.leader_changed(address)

    # --- inside ----------------------------------------------------------------------------------

    def _traced(self, message: ReceivedMessage) -> ReceivedMessage:
        assert self._spans is not None, "asked before"
        self._acked_by_asking()
        return self._spans.given(message)

    def _acked_by_asking(self) -> None:
        if self._spans is not None and not self.config.manual_ack:
            self._spans.all_done()

    def _wake_readers(self) -> None:
        for reader in self._readers.values():
            reader.wake()

    async def _again(self, reader: QueueReader, message: ReceivedMessage) -> None:
        """Hand out an ordered message once more, unless its queue moved or there was a `seek`."""
        acks = reader.acks
        await asyncio.sleep(ORDERED_PAUSE)
        if reader.acks is acks and self._ready.is_coming_back(reader):
            reader.put_back(message._replace(reconsume_times=message.reconsume_times + 1))
            self._ready.done(reader)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("the consumer is closed; make another one")

    async def _keep(self, period: float, work: Callable[[], Awaitable[None]], what: str) -> None:
        while True:  # until the consumer is closed
            await asyncio.sleep(period)
            try:
                await work()
            except ClusterError as error:
                if is_final(error):
                    self._ready.refuse(error)
                _log.info("%s: %s sent again later: %s", self.group, what, error)

    async def _commit_and_ask(self) -> None:
        try:
            await self.commit()
        finally:
            for queue in self._readers:
                self._instance.leaders.ask_news(queue.broker_name, queue.topic)
