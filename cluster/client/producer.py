"""Sends messages; a receipt means that a majority has the message on disk.

    send ─► choose a queue ─► its Lane ─► one write per event-loop turn ─► receipt

Messages with the same key go to the same queue and stay in order; others take the queues in turn,
one queue per event-loop turn so that batches form. At most `in_flight_max` messages wait for their
receipts; `send` waits for room, `send_nowait` raises `QueueFull`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.client.config import BODY_SIZE_MAX, ProducerConfig
from cluster.client.extra import delay_properties, encode_extra, timer_due_ms
from cluster.client.flight import Entry, Waiter
from cluster.client.lane import Lane, new_tuple
from cluster.client.message import Receipt
from cluster.client.repeating import Repeating
from cluster.client.room import Room
from cluster.client.shared import Shared
from cluster.client.topic_lanes import TopicLanes
from cluster.client.unique_key import UniqueKeys
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
from cluster.protocol.route import TopicRoute
from commitlog.checksum import crc32

if TYPE_CHECKING:
    from cluster.client.client import Client


class Producer:
    """Made by `Client.producer`; use it with `async with`."""

    def __init__(
        self, client: Client, group: str, config: ProducerConfig, *, sys_flag: int = 0
    ) -> None:
        self.client, self.group, self.config = client, group, config
        self.sys_flag = sys_flag
        self.leaders = client.leaders
        self.producer_id = secrets.token_hex(8).encode()
        self.is_closed = False
        self.turn_ms = 0
        self.turn_time = 0.0
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._is_turn_open = False
        self._deadline = 0.0
        self._keys = UniqueKeys()
        self._topics: dict[str, TopicLanes] = {}
        self._lanes: dict[MessageQueue, Lane] = {}
        self._opening: Shared[TopicLanes] = Shared()
        self._room = Room(config.in_flight_max, config.in_flight_bytes_max)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def in_flight_count(self) -> int:
        """Messages that wait for their receipts."""
        return self._room.count

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
            key: business key to find it by; messages with one key stay in order.
            tags: one tag, which consumers can filter by.
            properties: more, of your own.
            queue_id: a queue of your choice instead.

        Raises:
            NotDone: it certainly was not stored (`TopicNotFound`, `MessageTooLarge`, `QueueFull`,
                `NotConnected`, …).
            OutcomeUnknown: it may be stored (`SendTimeout`, …).
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
        """Send one message that consumers see later; `recall` takes it back until then.

        The receipt tells where the message waits, not where it will be delivered.

        Args:
            delay: so many seconds after the broker has it; three days at most.
            deliver_at: at this time, in seconds since 1970; at once when it is over.
            delay_level: RocketMQ's levels instead, 1 (1 s) to 18 (2 h); cannot be recalled.

        Exactly one of the three is given; all else as `send`. Raises as `send`.
        """
        extra = encode_extra(key, tags, properties)
        extra += delay_properties(delay, deliver_at, delay_level)
        return await self.send_encoded(topic, body, extra, key=key, queue_id=queue_id)

    async def recall(self, receipt: Receipt) -> None:
        """Take back a message of `send_delayed` before it is delivered.

        Raises:
            IllegalOperation: it was delivered or recalled already.
            InvalidRequest: it was not sent with `delay` or `deliver_at`.
            OutcomeUnknown: it may be recalled.
        """
        due_ms = timer_due_ms(receipt)
        queue = receipt.queue
        handle = recall_handle(queue.topic, queue.broker_name, due_ms, receipt.message_id)
        request = RecallRequest(queue.topic, handle, self.group, queue.broker_name)
        asking = Repeating(self.client, queue, time_limit=self.config.delivery_timeout)
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
            QueueFull: as many messages are on their way as may be.
            TopicNotFound, MessageTooLarge, InvalidRequest: it cannot be sent.
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
        """As `send_nowait`, for many small messages: `callback(receipt, error)`, one is None.

        It is called in the event loop, in the order of the queue, and may send the next message.
        A future does as well.
        """
        room, found = self._room, self._topics.get(topic)
        if room.is_full:
            raise QueueFull(
                f"{room.count} messages wait for their receipts; "
                "wait for some, or use send(), which waits"
            )
        if found is None:
            raise TopicNotFound(f"the route of {topic} is not known yet; call open_topic first")
        extra = b""
        if key is not None or tags is not None or properties:
            extra = encode_extra(key, tags, properties)
        self._submit(found, topic, body, callback, extra, key, queue_id)

    async def open_topic(self, topic: str) -> int:
        """Learn where a topic is; the number of its queues. Raises TopicNotFound, NotConnected."""
        return len((self._topics.get(topic) or await self._open(topic)).lanes)

    async def flush(self) -> None:
        """Wait until every message has its receipt or its error."""
        await self._room.wait_until_empty()

    async def close(self) -> None:
        """Wait for what is on its way, for `delivery_timeout` at most, then give it up.

        Cancelled, it gives it up at once.
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
        """Close without waiting: what is on its way may or may not be stored."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for lane in self._lanes.values():
            lane.close(
                ClientClosed(
                    "the producer was closed before this message was sent; make another one and "
                    "send it again"
                )
            )
        self.client.forget_producer(self)

    # --- for other modules of the client ---------------------------------------------------------

    async def send_encoded(
        self, topic: str, body: bytes, extra: bytes, *, key: str | None, queue_id: int | None
    ) -> Receipt:
        """As `send`, of a message whose properties are encoded."""
        found = self._topics.get(topic) or await self._open(topic)
        room = self._room
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if not room.is_full:
            self._submit(found, topic, body, future, extra, key, queue_id)
            return await future
        await room.wait(self.config.delivery_timeout)
        try:
            self._submit(found, topic, body, future, extra, key, queue_id)
        finally:
            room.let_in()
        return await future

    # --- what lanes tell -------------------------------------------------------------------------

    def released(self, count: int, size: int) -> None:
        """So many messages were answered; those who wait for room may go on."""
        self._room.give(count, size)

    def begin_turn(self) -> None:
        """Read the clocks, once per event-loop turn."""
        if self._is_turn_open:
            return
        self._is_turn_open = True
        self._turn += 1
        self.turn_ms = int(time.time() * 1000)
        self.turn_time = self._loop.time()
        self._deadline = self.turn_time + self.config.delivery_timeout
        self._keys.at(self.turn_ms)
        self._loop.call_soon(self._end_turn)
        self._start_timer()

    def leader_changed(self, broker_name: str) -> None:
        """The client learned of a new leader."""
        address = self.leaders.address(broker_name)
        for queue, lane in self._lanes.items():
            if queue.broker_name == broker_name:
                lane.leader_changed(address)

    # --- inside ----------------------------------------------------------------------------------

    def _submit(
        self,
        found: TopicLanes,
        topic: str,
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
        if not self._is_turn_open:
            self.begin_turn()
        tail = self._keys.property()
        if not extra:
            if queue_id is not None:
                lane = found.of(queue_id)
            elif found.turn == self._turn:
                lane = found.lane
            else:
                lane = self._next_lane(found, topic)
        else:
            tail += extra
            if queue_id is not None:
                lane = found.of(queue_id)
            elif key is not None:
                self._refresh_lanes(found, topic)
                lane = found.lanes[crc32(key.encode()) % len(found.lanes)]
            else:
                lane = self._next_lane(found, topic)
        self._room.take(size)
        lane.add(new_tuple(Entry, (waiter, body, tail, self._deadline)))

    def _refuse(self, size: int) -> None:
        if self.is_closed:
            raise ClientClosed("the producer is closed; make another one")
        raise MessageTooLarge(
            f"the body has {size} bytes and the limit is {BODY_SIZE_MAX}; send it in parts"
        )

    def _next_lane(self, found: TopicLanes, topic: str) -> Lane:
        """The queue of this turn."""
        if found.turn != self._turn:
            found.turn = self._turn
            self._refresh_lanes(found, topic)
            found.place = (found.place + 1) % len(found.lanes)
            found.lane = found.lanes[found.place]
        return found.lane

    def _refresh_lanes(self, found: TopicLanes, topic: str) -> None:
        """Follow the route: queues may have been added, or brokers left."""
        route = self.client.routes.known(topic)
        if route is not None and route is not found.route and route.write_queues(topic):
            self._fill(found, topic, route)

    async def _open(self, topic: str) -> TopicLanes:
        if not isinstance(topic, str):
            raise InvalidRequest(f"the topic is {topic!r:.40}; give its name as text")
        return await self._opening.get(topic, lambda: self._open_topic(topic))

    async def _open_topic(self, topic: str) -> TopicLanes:
        if self.is_closed:
            raise ClientClosed("the producer is closed; make another one")
        route = await self.client.routes.for_producing(topic)
        found = TopicLanes()
        self._fill(found, topic, route)
        if not found.lanes:
            raise TopicNotFound(
                f"no queue of {topic} can be written to now; see `dledger topic describe {topic}`"
            )
        self._topics[topic] = found
        self.client.watch(topic)
        return found

    def _fill(self, found: TopicLanes, topic: str, route: TopicRoute) -> None:
        queues = route.write_queues(topic)
        for queue in queues:
            if queue not in self._lanes:
                self._lanes[queue] = Lane(self, queue)
        found.fill(route, [self._lanes[queue] for queue in queues])

    def _end_turn(self) -> None:
        self._is_turn_open = False

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self.client.config.stall_timeout / 2, self._check)

    def _check(self) -> None:
        """Look for stalls while anything is on its way."""
        self._timer = None
        now = self._loop.time()
        for lane in self._lanes.values():
            lane.check(now)
        if self._room.count and not self.is_closed:
            self._start_timer()


def _to_bytes(body: object) -> bytes:
    """A body that is bytes by another name; copied, since it may change while it is on its way."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidRequest(
        f"the body is of type {type(body).__name__} and must be bytes; encode it, nothing was sent"
    )
