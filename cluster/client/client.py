"""One client of a cluster: what its producers, consumers and its admin share.

Connections, routes, who leads, heartbeats. `close` ends everything that was made by it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from cluster.client.admin import Admin
from cluster.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from cluster.client.connection import Connection
from cluster.client.consumer import Consumer
from cluster.client.leaders import Leaders
from cluster.client.message import ReceivedMessage
from cluster.client.pool import Pool
from cluster.client.producer import Producer
from cluster.client.replying import send_reply
from cluster.client.requester import Requester
from cluster.client.routes import DEFAULT_TOPIC, Routes
from cluster.client.transaction import Check
from cluster.client.transaction_producer import TransactionProducer
from cluster.errors import ClientClosed, ClusterError, InvalidRequest, RemoteProtocolError
from cluster.protocol.admin_headers import ResetOffsetRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_RESPONSE, Frame, encode_frame
from cluster.protocol.headers import ConsumerListRequest, LeaderChangedNotice, decode
from cluster.protocol.json_body import load_queue_map


class Client:
    """Use it with `async with`; producers and consumers come from its methods."""

    def __init__(self, nameservers: Sequence[str], config: ClientConfig) -> None:
        self.config = config
        self._consumer_numbers = itertools.count()
        self.client_id = f"127.0.0.1@{os.getpid()}#{secrets.token_hex(4)}"
        self.pool = Pool(config, self._requested)
        self.routes = Routes(nameservers, self.pool, config)
        self.leaders = Leaders(self.routes, self.pool, config)
        self.leaders.on_change.append(self._leader_changed)
        self.is_closed = False
        self._producers: set[Producer] = set()
        self._transaction_producers: set[TransactionProducer] = set()
        self._requesters: set[Requester] = set()
        self._consumers: set[Consumer] = set()
        self._topics: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.spawn(self._refresh_routes())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def producer(
        self, group: str = "DLEDGER_PRODUCER", config: ProducerConfig | None = None
    ) -> Producer:
        """A producer; messages of one producer to one queue are stored in order, once each."""
        self._check_open()
        producer = Producer(self, group, config or ProducerConfig())
        self._producers.add(producer)
        return producer

    def transaction_producer(
        self, group: str, check: Check, config: ProducerConfig | None = None
    ) -> TransactionProducer:
        """A producer of messages that are delivered when they are committed, or never.

        Args:
            group: brokers ask any of its producers about what was left open.
            check: says what became of such a message; may block, or be async.
        """
        self._check_open()
        producer = TransactionProducer(self, group, check, config or ProducerConfig())
        self._transaction_producers.add(producer)
        return producer

    def requester(
        self, group: str = "DLEDGER_PRODUCER", config: ProducerConfig | None = None
    ) -> Requester:
        """Sends messages to which consumers reply (see `reply`), and waits for the replies."""
        requester = Requester(self, self.producer(group, config))
        self._requesters.add(requester)
        return requester

    async def reply(
        self,
        message: ReceivedMessage,
        body: bytes,
        *,
        group: str = "DLEDGER_PRODUCER",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Answer a message that was sent with `Requester.request`, or with a stock client's.

        Returns when the client that asked has the reply.

        Args:
            group: of producers; with access control it, and the cluster's reply topic, need the
                right to publish.

        Raises:
            InvalidRequest: the message asks for no reply.
            ServerError: the client that asked cannot be reached; it is gone, most likely.
            ClusterError: it could not be sent; a repeat does no harm.
        """
        self._check_open()
        await send_reply(self, message, body, group, properties)

    def consumer(self, *topics: str, group: str, config: ConsumerConfig | None = None) -> Consumer:
        """A member of a consumer group; the group shares the topics' queues."""
        return self._consumer(topics, group, config, is_reader=False)

    def reader(self, *topics: str, config: ConsumerConfig | None = None) -> Consumer:
        """A consumer without a group: it reads every queue and leaves nothing behind."""
        # Brokers want some name with a pull; one that nobody else has cannot be mistaken.
        name = f"reader-{secrets.token_hex(8)}"
        return self._consumer(topics, name, config, is_reader=True)

    def _consumer(
        self,
        topics: Sequence[str],
        group: str,
        config: ConsumerConfig | None,
        *,
        is_reader: bool,
    ) -> Consumer:
        self._check_open()
        if not topics:
            raise InvalidRequest("no topic is given; name one at least")
        consumer = Consumer(self, topics, group, config or ConsumerConfig(), is_reader=is_reader)
        self._consumers.add(consumer)
        return consumer

    def admin(self) -> Admin:
        """Topics and status."""
        self._check_open()
        return Admin(self)

    async def close(self) -> None:
        """Close producers and consumers, then the connections."""
        if self.is_closed:
            return
        for requester in list(self._requesters):
            await requester.close()
        for producer in list(self._producers):
            await producer.close()
        for transactional in list(self._transaction_producers):
            await transactional.close()
        for consumer in list(self._consumers):
            await consumer.close()
        self.is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.leaders.close()
        await self.pool.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background until it ends or the client is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_consumer_id(self) -> str:
        """Of a member of a group; queues are shared out by these, so each has one of its own."""
        return f"{self.client_id}.{next(self._consumer_numbers)}"

    def watch(self, topic: str) -> None:
        """Keep the route of a topic fresh."""
        self._topics.add(topic)

    def forget_producer(self, producer: Producer) -> None:
        """It was closed."""
        self._producers.discard(producer)

    def forget_transaction_producer(self, producer: TransactionProducer) -> None:
        """It was closed."""
        self._transaction_producers.discard(producer)

    def forget_requester(self, requester: Requester) -> None:
        """It was closed."""
        self._requesters.discard(requester)

    def forget_consumer(self, consumer: Consumer) -> None:
        """It was closed."""
        self._consumers.discard(consumer)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("the client is closed; connect again")

    def _leader_changed(self, broker_name: str) -> None:
        for producer in self._producers:
            producer.leader_changed(broker_name)
        for transactional in self._transaction_producers:
            transactional.leader_changed(broker_name)
        for requester in self._requesters:
            requester.leader_changed()
        for consumer in self._consumers:
            consumer.leader_changed(broker_name)

    def _requested(self, frame: Frame, connection: Connection) -> None:
        """A broker asks or tells something; what is not known is ignored, as clients do."""
        try:
            if frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                group = decode(ConsumerListRequest, frame.ext).consumer_group
                for consumer in self._consumers:
                    if consumer.group == group:
                        consumer.rebalance_soon()
            elif frame.code == RequestCode.CHECK_TRANSACTION_STATE:
                for producer in self._transaction_producers:
                    producer.asked(frame)
            elif frame.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                moved = decode(ResetOffsetRequest, frame.ext)
                offsets = load_queue_map(frame.body, "offsetTable")
                for consumer in self._consumers:
                    if consumer.group == moved.group:
                        consumer.moved({queue: int(at) for queue, at in offsets.items()})
            elif frame.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                # A reply that nobody waits for any more is taken, too, as stock clients do: it
                # may be a repeat of one that came.
                any(requester.replied(frame) for requester in list(self._requesters))
                taken = Frame(0, frame.opaque, flag=FLAG_RESPONSE, kind=frame.kind)
                connection.write(encode_frame(taken))
            elif frame.code == RequestCode.NOTIFY_LEADER_CHANGED:
                notice = decode(LeaderChangedNotice, frame.ext)
                self.leaders.told(notice.broker_name, notice.leader, notice.term)
        except (InvalidRequest, RemoteProtocolError, TypeError, ValueError):
            return

    async def _refresh_routes(self) -> None:
        while True:  # until the client is closed
            await asyncio.sleep(self.config.route_period)
            for topic in list(self._topics):
                try:
                    await self.routes.refresh(topic)
                except ClusterError:
                    continue
            for broker_name in self.leaders.detours:
                self.leaders.ask_news(broker_name, DEFAULT_TOPIC)
