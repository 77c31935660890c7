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
from zlib import crc32

from cluster.client.config import BODY_SIZE_MAX, ProducerConfig
from cluster.client.flight import Entry
from cluster.client.lane import Lane, new_tuple
from cluster.client.message import Receipt
from cluster.client.room import Room
from cluster.client.unique_key import UniqueKeys
from cluster.errors import ClientClosed, InvalidRequest, MessageTooLarge, QueueFull, TopicNotFound
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import TopicRoute
from commitlog.errors import StoreUsageError
from commitlog.properties import check_user_properties, encode_properties

if TYPE_CHECKING:
    from cluster.client.client import Client

PROPERTIES_SIZE_MAX = 32_000
"""Of what the user adds; the record's limit is 32,767 and our own properties need some of it."""


class _Topic:
    """The lanes of one topic, in order of their queues."""

    __slots__ = ("by_id", "lanes", "place", "route", "turn")

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.by_id: dict[int, list[Lane]] = {}
        self.route: TopicRoute | None = None
        self.place = 0
        self.turn = -1


class Producer:
    """Made by `Client.producer`; use it with `async with`."""

    def __init__(self, client: Client, group: str, config: ProducerConfig) -> None:
        self.client, self.group, self.config = client, group, config
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
        self._topics: dict[str, _Topic] = {}
        self._lanes: dict[MessageQueue, Lane] = {}
        self._opening: dict[str, asyncio.Task[_Topic]] = {}
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
        found = self._topics.get(topic) or await self._open(topic)
        room = self._room
        if not room.is_full:
            return await self._submit(found, topic, body, key, tags, properties, queue_id)
        await room.wait(self.config.delivery_timeout)
        try:
            future = self._submit(found, topic, body, key, tags, properties, queue_id)
        finally:
            room.let_in()
        return await future

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
        if self._room.is_full:
            raise QueueFull(
                f"{self._room.count} messages wait for their receipts; "
                "wait for some, or use send(), which waits"
            )
        found = self._topics.get(topic)
        if found is None:
            raise TopicNotFound(f"the route of {topic} is not known yet; call open_topic first")
        return self._submit(found, topic, body, key, tags, properties, queue_id)

    async def open_topic(self, topic: str) -> int:
        """Learn where a topic is; the number of its queues. Raises TopicNotFound, NotConnected."""
        return len((self._topics.get(topic) or await self._open(topic)).lanes)

    async def flush(self) -> None:
        """Wait until every message has its receipt or its error."""
        await self._room.wait_until_empty()

    async def close(self) -> None:
        """Wait for what is on its way, for `delivery_timeout` at most, then give it up."""
        if self.is_closed:
            return
        try:
            async with asyncio.timeout(self.config.delivery_timeout):
                await self.flush()
        except TimeoutError:
            pass
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for lane in self._lanes.values():
            lane.close(ClientClosed("the producer was closed before this message was sent"))
        self.client.forget_producer(self)

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
        found: _Topic,
        topic: str,
        body: bytes,
        key: str | None,
        tags: str | None,
        properties: Mapping[str, str] | None,
        queue_id: int | None,
    ) -> asyncio.Future[Receipt]:
        if type(body) is not bytes:
            body = _to_bytes(body)
        size = len(body)
        if size > BODY_SIZE_MAX or self.is_closed:
            self._refuse(size)
        if not self._is_turn_open:
            self.begin_turn()
        tail = self._keys.property()
        if key is None and tags is None and not properties:
            lane = self._next_lane(found, topic) if queue_id is None else _of(found, queue_id)
        else:
            tail += _encode_extra(key, tags, properties)
            if queue_id is not None:
                lane = _of(found, queue_id)
            elif key is not None:
                self._refresh_lanes(found, topic)
                lane = found.lanes[crc32(key.encode()) % len(found.lanes)]
            else:
                lane = self._next_lane(found, topic)
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self._room.take(size)
        lane.add(new_tuple(Entry, (future, body, tail, self._deadline)))
        return future

    def _refuse(self, size: int) -> None:
        if self.is_closed:
            raise ClientClosed("the producer is closed; make another one")
        raise MessageTooLarge(
            f"the body has {size} bytes and the limit is {BODY_SIZE_MAX}; send it in parts"
        )

    def _next_lane(self, found: _Topic, topic: str) -> Lane:
        """The queue of this turn."""
        if found.turn != self._turn:
            found.turn = self._turn
            self._refresh_lanes(found, topic)
            found.place = (found.place + 1) % len(found.lanes)
        return found.lanes[found.place]

    def _refresh_lanes(self, found: _Topic, topic: str) -> None:
        """Follow the route: queues may have been added, or brokers left."""
        route = self.client.routes.known(topic)
        if route is not None and route is not found.route and route.write_queues(topic):
            self._fill(found, topic, route)

    async def _open(self, topic: str) -> _Topic:
        if not isinstance(topic, str):
            raise InvalidRequest(f"the topic is {topic!r:.40}; give its name as text")
        task = self._opening.get(topic)
        if task is None:
            task = asyncio.ensure_future(self._open_topic(topic))
            self._opening[topic] = task
            task.add_done_callback(lambda _: self._opening.pop(topic, None))
        return await asyncio.shield(task)

    async def _open_topic(self, topic: str) -> _Topic:
        if self.is_closed:
            raise ClientClosed("the producer is closed; make another one")
        route = await self.client.routes.for_producing(topic)
        found = _Topic()
        self._fill(found, topic, route)
        if not found.lanes:
            raise TopicNotFound(
                f"no queue of {topic} can be written to now; see `dledger topic describe {topic}`"
            )
        self._topics[topic] = found
        self.client.watch(topic)
        return found

    def _fill(self, found: _Topic, topic: str, route: TopicRoute) -> None:
        queues = route.write_queues(topic)
        found.route = route
        for queue in queues:
            if queue not in self._lanes:
                self._lanes[queue] = Lane(self, queue)
        found.lanes = [self._lanes[queue] for queue in queues]
        found.by_id = {}
        for lane in found.lanes:
            found.by_id.setdefault(lane.queue.queue_id, []).append(lane)
        found.place %= max(len(found.lanes), 1)

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


def _of(found: _Topic, queue_id: int) -> Lane:
    lanes = found.by_id.get(queue_id)
    if not lanes:
        raise InvalidRequest(
            f"queue {queue_id} does not exist; the queues are 0 to {max(found.by_id, default=-1)}"
        )
    return lanes[0]


def _to_bytes(body: object) -> bytes:
    """A body that is bytes by another name; copied, since it may change while it is on its way."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidRequest(
        f"the body is of type {type(body).__name__} and must be bytes; encode it, nothing was sent"
    )


def _encode_extra(key: str | None, tags: str | None, properties: Mapping[str, str] | None) -> bytes:
    pairs: dict[str, str] = {}
    if key is not None:
        pairs["KEYS"] = key
    if tags is not None:
        pairs["TAGS"] = tags
    pairs.update(properties or {})
    for name, value in pairs.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"property {name!r:.40} = {value!r:.40} is no text; nothing was sent"
            )
    try:
        if properties:
            check_user_properties(properties)
        block = encode_properties(pairs)
        "".join(pairs.values()).encode()
    except StoreUsageError as error:
        raise InvalidRequest(str(error)) from error
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"a property is no text that UTF-8 can hold: {error}") from error
    if len(block) > PROPERTIES_SIZE_MAX:
        raise MessageTooLarge(
            f"the properties have {len(block)} bytes and the limit is {PROPERTIES_SIZE_MAX}; "
            "put more into the body"
        )
    return block
