"""Requests to other clients: a message out, its reply back (docs/spec/remoting.md 5).

    request ─► topic ─► any consumer, which calls `Client.reply` (or Java's, Go's own way)
       ◄─ 326 ─ the leader ◄─ 325 ─────────────────┘

The leader pushes a reply to the client that asked and to no other, so a reply is lost with that
client. Stock clients may reply to a request of this client, and the other way round.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import uuid
from collections.abc import Callable, Mapping

from cluster.client.message import ReceivedMessage
from cluster.client.producer.message_properties import encode_extra
from cluster.client.producer.producer import Producer
from cluster.client.producer.reply import reply_topic
from cluster.client.routing.broadcast import BrokerBroadcast
from cluster.client.routing.client_instance import ClientInstance
from cluster.errors import (
    ClientClosed,
    ClusterError,
    InvalidRequest,
    OutcomeUnknown,
    QueueFull,
    ReplyTimeout,
    TopicNotFound,
)
from cluster.protocol.fields import decode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import UnregisterClientRequest
from cluster.protocol.heartbeat import HeartbeatData
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.reply_headers import PushReplyRequest
from commitlog.records import property_names as names
from commitlog.records.properties import encode_properties, find_property

WAITING_COUNT_MAX = 10_000
"""How many requests of one requester may wait for their replies."""

_log = logging.getLogger(__name__)


class Requester:
    """Made by `Client.requester`; use it with `async with`."""

    def __init__(
        self,
        instance: ClientInstance,
        producer: Producer,
        on_close: Callable[[Requester], object],
    ) -> None:
        """`on_close` is called when the requester is closed."""
        self.group = producer.group
        self._instance, self._on_close = instance, on_close
        self._producer = producer
        # Its own id: a goodbye under the client's id would end other producers of the group, too.
        self._client_id = instance.new_member_id()
        self._topics: set[str] = set()
        self._broadcast = BrokerBroadcast(instance, self._topics)
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self._beats: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def waiting_count(self) -> int:
        """How many requests wait for their replies."""
        return len(self._waiting)

    async def __aenter__(self) -> Requester:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        topic: str,
        body: bytes,
        *,
        time_limit: float = 3.0,
        key: str | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> ReceivedMessage:
        """Send one message and wait for the reply to it; the first reply counts.

        A reply has no place in a queue: its `queue_offset` and `position` are -1.

        Args:
            time_limit: seconds until the reply must be here; the consumer gets it as TTL.

        All else as `Producer.send`.

        Raises:
            ReplyTimeout: no reply came in time. A consumer may still handle the request later, so
                a repeat may be handled a second time.
            ClientClosed: the requester was closed meanwhile.
            QueueFull: too many requests wait for their replies.
            ClusterError: the request could not be sent, as `Producer.send` says.
        """
        if not math.isfinite(time_limit) or time_limit <= 0:
            raise InvalidRequest(
                f"time_limit={time_limit!r}: nothing was sent; give seconds above 0"
            )
        if len(self._waiting) >= WAITING_COUNT_MAX:
            raise QueueFull(
                f"{len(self._waiting)} requests wait for their replies; wait for some of them"
            )
        correlation_id = str(uuid.uuid4())
        extra = encode_properties(
            {
                names.CORRELATION_ID: correlation_id,
                names.REPLY_TO_CLIENT: self._client_id,
                names.TTL: str(math.ceil(time_limit * 1000)),
            }
        ) + encode_extra(key, tags, properties)
        is_stored = False
        reply: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            async with asyncio.timeout(time_limit):
                if topic not in self._topics:
                    await self.open_topic(topic)
                try:
                    await self._producer.send_encoded(
                        topic, body, extra, key=key, queue_id=queue_id
                    )
                    is_stored = True
                except OutcomeUnknown:
                    if not reply.done():  # a reply says that it was stored
                        raise
                return await reply
        except TimeoutError:
            what = "is stored" if is_stored else "may be stored"
            raise ReplyTimeout(
                f"the request to {topic} {what}, and no reply came in {time_limit:g} s; look "
                "whether a consumer there replies, or give it a longer time_limit"
            ) from None
        finally:
            del self._waiting[correlation_id]
            reply.cancel()

    async def open_topic(self, topic: str) -> None:
        """Tell the brokers of a topic, and those that pass replies on, to send replies here.

        `request` does it by itself.

        Raises:
            TopicNotFound, NotConnected: as `Producer.open_topic`.
        """
        await self._producer.open_topic(topic)
        route = await self._instance.routes.for_producing(topic)
        for cluster in {broker.cluster for broker in route.brokers}:
            # Stock clients send a reply by any broker name of the cluster.
            with contextlib.suppress(TopicNotFound):
                await self._instance.routes.get(reply_topic(cluster))
                self._topics.add(reply_topic(cluster))
        self._topics.add(topic)
        await self._heartbeat()
        if self._beats is None:
            self._beats = self._instance.spawn(self._keep_alive())

    async def close(self) -> None:
        """Fail the requests that wait for replies, and say goodbye to the brokers."""
        self._on_close(self)
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(
                    ClientClosed(
                        "the requester was closed before the reply came; make another one and ask "
                        "again"
                    )
                )
        await self._producer.close()
        if self._beats is not None:
            self._beats.cancel()
            self._beats = None
            await self._broadcast.leave(UnregisterClientRequest(self._client_id, self.group))

    # --- for the client ---------------------------------------------------------------------------

    def leader_changed(self) -> None:
        """Send a heartbeat soon, so that a new leader knows this requester."""
        self._news.set()

    def replied(self, frame: Frame) -> bool:
        """Take a reply that a broker pushes (326); False if no request here waits for it.

        Raises InvalidRequest if it cannot be read.
        """
        header = decode(PushReplyRequest, frame.ext)
        block = (header.properties or "").encode()
        number = find_property(block, names.CORRELATION_ID.encode()) or b""
        reply = self._waiting.get(number.decode("utf-8", "replace"))
        if reply is None:
            return False
        if not reply.done():
            reply.set_result(
                ReceivedMessage(
                    MessageQueue(header.topic, "", header.queue_id),
                    -1,
                    frame.body,
                    block,
                    -1,
                    header.born_timestamp,
                    header.store_timestamp,
                    header.reconsume_times,
                    header.sys_flag,
                )
            )
        return True

    # --- inside ----------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        await self._broadcast.heartbeat(HeartbeatData(self._client_id, (self.group,)))

    async def _keep_alive(self) -> None:
        while True:  # until the requester is closed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._instance.config.heartbeat_period):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._heartbeat()
            except ClusterError as error:
                _log.info("%s: the heartbeat is sent again later: %s", self.group, error)
