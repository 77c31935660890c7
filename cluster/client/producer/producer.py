"""Sends messages; a receipt means that a majority has the message on disk.

    send ─► choose a queue ─► its QueueSender ─► one write per event-loop turn ─► receipt

Messages with the same key go to the same queue and stay in order; others take the queues in turn,
one queue per event-loop turn, so that batches form. At most `in_flight_max` messages wait for their
receipts; beyond that `send` waits and `send_nowait` raises `QueueFull`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from cluster.client.config import BODY_SIZE_MAX, ProducerConfig
from cluster.client.message import Receipt
from cluster.client.producer.in_flight_batch import Entry, Waiter
from cluster.client.producer.message_properties import delay_properties, encode_extra, timer_due_ms
from cluster.client.producer.queue_sender import QueueSender, new_tuple
from cluster.client.producer.sender_context import SenderContext
from cluster.client.producer.topic_openings import TopicOpenings
from cluster.client.producer.topic_senders import TopicSenders
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import RetryingRequest
from cluster.errors import (
    ClientClosed,
    IllegalOperation,
    InvalidRequest,
    MessageTooLarge,
    OutcomeUnknown,
    QueueFull,
    TopicNotFound,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.recall_headers import RecallRequest, recall_handle


class Producer:
    """Made by `Client.producer`; use it with `async with`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: ProducerConfig,
        *,
        sys_flag: int = 0,
        on_close: Callable[[Producer], object] | None = None,
    ) -> None:
        """`on_close` is called once, when the producer was closed."""
        self.group, self.config = group, config
        self.is_closed = False
        self._instance, self._on_close = instance, on_close
        self._context = SenderContext(instance, group, config, sys_flag, self._start_timer)
        self._limiter, self._unique_keys = self._context.limiter, self._context.unique_keys
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, TopicSenders] = {}
        self._senders: dict[MessageQueue, QueueSender] = {}
        self._openings = TopicOpenings(self._open_topic)
        self._timer: asyncio.TimerHandle | None = None
        self._spans = instance.spans

    @property
    def producer_id(self) -> bytes:
        """The id under which brokers count the numbers of this producer's messages (R8).

        A queue sender that must number anew takes another one.
        """
        return self._context.producer_id

    @property
    def in_flight_count(self) -> int:
        """How many messages wait for their receipts."""
        return self._limiter.count

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        key: str | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> Receipt:
        """Send one message and wait until a majority has it.

        Args:
            key: business key by which the message can be found; messages with one key stay in
                order.
            tags: one tag, by which consumers can filter.
            properties: further properties of your own.
            queue_id: the queue, instead of one that the producer chooses.

        Raises:
            NotDone: the message certainly was not stored (`TopicNotFound`, `MessageTooLarge`,
                `QueueFull`, `NotConnected`, …).
            OutcomeUnknown: the message may be stored (`SendTimeout`, …).
        """
        extra = encode_extra(key, tags, properties)
        return await self.send_encoded(topic, body, extra, key=key, queue_id=queue_id)

    async def send_delayed(
        self,
        topic: str,
        body: bytes,
        *,
        delay: float | None = None,
        deliver_at: float | None = None,
        delay_level: int | None = None,
        key: str | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> Receipt:
        """Send one message that consumers see later; until then `recall` takes it back.

        The receipt gives the place where the message waits, not the queue of its delivery.

        Args:
            delay: seconds after its arrival at the broker; three days at most.
            deliver_at: a time in seconds since 1970; a time in the past delivers at once.
            delay_level: one of RocketMQ's levels, 1 (1 s) to 18 (2 h); cannot be recalled.

        Give exactly one of the three. All else, and the errors, are as in `send`.
        """
        extra = encode_extra(key, tags, properties)
        extra += delay_properties(delay, deliver_at, delay_level)
        return await self.send_encoded(topic, body, extra, key=key, queue_id=queue_id)

    async def recall(self, receipt: Receipt) -> None:
        """Take back a message of `send_delayed` before it is delivered.

        Raises:
            IllegalOperation: the message was delivered or recalled already.
            InvalidRequest: the message was sent without `delay` and `deliver_at`.
            OutcomeUnknown: the message may be recalled.
        """
        due_ms = timer_due_ms(receipt)
        queue = receipt.queue
        handle = recall_handle(queue.topic, queue.broker_name, due_ms, receipt.message_id)
        request = RecallRequest(queue.topic, handle, self.group, queue.broker_name)
        asking = RetryingRequest(self._instance, queue, time_limit=self.config.delivery_timeout)
        try:
            await asking.ask(RequestCode.RECALL_MESSAGE, encode(request))
        except IllegalOperation as error:
            if asking.was_unsure:
                raise OutcomeUnknown(f"an earlier attempt may have recalled it: {error}") from error
            raise

    def send_nowait(
        self,
        topic: str,
        body: bytes,
        *,
        key: str | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> asyncio.Future[Receipt]:
        """Send one message; the future gives its receipt. `open_topic` must have been called.

        Raises:
            QueueFull: `in_flight_max` messages wait for their receipts.
            TopicNotFound, MessageTooLarge, InvalidRequest: the message cannot be sent.
        """
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self.send_callback(
            topic, body, future, key=key, tags=tags, properties=properties, queue_id=queue_id
        )
        return future

    def send_callback(
        self,
        topic: str,
        body: bytes,
        callback: Waiter,
        *,
        key: str | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> None:
        """As `send_nowait`, with `callback(receipt, error)`, of which one is None, or a future.

        For many small messages. The event loop calls it in the order of the queue; it may send the
        next message.
        """
        limiter, found = self._limiter, self._topics.get(topic)
        if limiter.is_full:
            raise QueueFull(
                f"{limiter.count} messages wait for their receipts; "
                "wait for some, or use send(), which waits"
            )
        if found is None:
            raise TopicNotFound(f"the route of {topic} is not known yet; call open_topic first")
        extra = b""
        if key is not None or tags is not None or properties:
            extra = encode_extra(key, tags, properties)
        self._submit(found, body, callback, extra, key, queue_id)

    async def open_topic(self, topic: str) -> int:
        """Ask for the topic's route. Returns the number of its queues.

        Raises:
            TopicNotFound: the topic does not exist, or no queue of it can be written to.
            NotConnected: no name server answers.
        """
        return len((await self._open(topic)).senders)

    async def flush(self) -> None:
        """Wait until each message has its receipt or its error."""
        await self._limiter.wait_until_empty()

    async def close(self) -> None:
        """Wait for receipts, `delivery_timeout` seconds at most, then fail the remaining messages.

        If the call is cancelled, it fails them at once.
        """
        if self.is_closed:
            return
        try:
            async with asyncio.timeout(self.config.delivery_timeout):
                await self.flush()
        except TimeoutError:
            pass
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without waiting: messages without a receipt may or may not be stored."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for sender in self._senders.values():
            sender.close(
                ClientClosed(
                    "the producer was closed before this message was sent; make another one and "
                    "send it again"
                )
            )
        if self._on_close is not None:
            self._on_close(self)

    # --- for other modules of the client ---------------------------------------------------------

    async def send_encoded(
        self, topic: str, body: bytes, extra: bytes, *, key: str | None, queue_id: int | None
    ) -> Receipt:
        """As `send`, with properties that are encoded already."""
        found = self._topics.get(topic)
        if found is None or self._openings.lines:
            found = await self._open(topic)
        limiter = self._limiter
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if not limiter.is_full:
            self._submit(found, body, future, extra, key, queue_id)
            return await future
        await limiter.wait(self.config.delivery_timeout)
        try:
            self._submit(found, body, future, extra, key, queue_id)
        finally:
            limiter.let_in()
        return await future

    def leader_changed(self, broker_name: str) -> None:
        """Send to the new leader of `broker_name`; the client calls this."""
        address = self._instance.leaders.address(broker_name)
        for queue, sender in self._senders.items():
            if queue.broker_name == broker_name:
                sender.leader_changed(address)

    # --- inside ----------------------------------------------------------------------------------

    def _submit(
        self,
        found: TopicSenders,
        body: bytes,
        waiter: Waiter,
        extra: bytes,
        key: str | None,
        queue_id: int | None,
    ) -> None:
        if type(body) is not bytes:
            body = _to_bytes(body)
        size = len(body)
        if size > BODY_SIZE_MAX or self.is_closed:
            self._refuse(size)
        context = self._context
        if not context.is_turn_open:
            context.begin_turn()
        tail = self._unique_keys.property()
        if extra:
            tail += extra
        if queue_id is not None:
            sender = found.of_queue(queue_id)
        elif key is not None:
            sender = found.of_key(key)
        elif found.turn == context.turn:
            sender = found.sender
        else:
            sender = found.of_turn(context.turn)
        self._limiter.take(size)
        if self._spans is not None:
            waiter, tail = self._spans.sending(sender.queue.topic, waiter, tail)
        sender.add(new_tuple(Entry, (waiter, body, tail, context.deadline)))

    def _refuse(self, size: int) -> None:
        if self.is_closed:
            raise ClientClosed("the producer is closed; make another one")
        raise MessageTooLarge(
            f"the body has {size} bytes and the limit is {BODY_SIZE_MAX}; send it in parts"
        )

    async def _open(self, topic: str) -> TopicSenders:
        if not isinstance(topic, str):
            raise InvalidRequest(f"the topic is {topic!r:.40}; give its name as text")
        found = self._topics.get(topic)
        if found is None or topic in self._openings.lines:
            found = await self._openings.enter(topic)
        return found

    async def _open_topic(self, topic: str) -> TopicSenders:
        if self.is_closed:
            raise ClientClosed("the producer is closed; make another one")
        route = await self._instance.routes.for_producing(topic)
        found = TopicSenders(topic, self._instance.routes, self._sender_of)
        found.follow(route)
        if not found.senders:
            raise TopicNotFound(
                f"no queue of {topic} can be written to now; see `dledger topic describe {topic}`"
            )
        self._topics[topic] = found
        self._instance.watch(topic)
        return found

    def _sender_of(self, queue: MessageQueue) -> QueueSender:
        sender = self._senders.get(queue)
        if sender is None:
            sender = self._senders[queue] = QueueSender(self._context, queue)
        return sender

    def _start_timer(self) -> None:
        if self._timer is None:
            seconds = self._instance.config.stall_timeout / 2
            self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        """Look for stalls while any message waits for its receipt."""
        self._timer = None
        now = self._loop.time()
        for sender in self._senders.values():
            sender.check(now)
        if self._limiter.count and not self.is_closed:
            self._start_timer()


def _to_bytes(body: object) -> bytes:
    """A copy of a body of another bytes type, since its owner may change it while it is sent."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidRequest(
        f"the body is of type {type(body).__name__} and must be bytes; encode it, nothing was sent"
    )
