"""One client of a cluster: it makes producers, consumers and the admin, and ends them.

`ClientInstance` holds what these share; `Client` passes on what brokers send to the client.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from cluster.client.admin.admin import Admin
from cluster.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from cluster.client.connection.connection import Connection
from cluster.client.consumer.consumer import Consumer
from cluster.client.message import ReceivedMessage
from cluster.client.producer.producer import Producer
from cluster.client.producer.reply import send_reply
from cluster.client.producer.requester import Requester
from cluster.client.producer.transaction import Check
from cluster.client.producer.transaction_producer import TransactionProducer
from cluster.client.routing.client_instance import ClientInstance
from cluster.errors import ClientClosed, InvalidRequest, RemoteProtocolError
from cluster.protocol.admin_headers import ResetOffsetRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_RESPONSE, Frame, encode_frame
from cluster.protocol.headers import ConsumerListRequest, LeaderChangedNotice, decode
from cluster.protocol.json_body import load_queue_map


class Client:
    """Use it with `async with`; producers and consumers come from its methods.

    Attributes:
        instance: the parts that producers, consumers and the admin share.
        routes, leaders, pool: those of the instance.
    """

    def __init__(self, nameservers: Sequence[str], config: ClientConfig) -> None:
        self.config = config
        self.instance = ClientInstance(nameservers, config, self._requested)
        self.pool, self.routes = self.instance.pool, self.instance.routes
        self.leaders = self.instance.leaders
        self.leaders.on_change.append(self._leader_changed)
        self.is_closed = False
        self._producers: set[Producer] = set()
        self._transaction_producers: set[TransactionProducer] = set()
        self._requesters: set[Requester] = set()
        self._consumers: set[Consumer] = set()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def producer(
        self, group: str = "DLEDGER_PRODUCER", config: ProducerConfig | None = None
    ) -> Producer:
        """A producer; messages of one producer to one queue are stored in order, once each."""
        self._check_open()
        settings = config or ProducerConfig()
        producer = Producer(self.instance, group, settings, on_close=self._producers.discard)
        self._producers.add(producer)
        return producer

    def transaction_producer(
        self, group: str, check: Check, config: ProducerConfig | None = None
    ) -> TransactionProducer:
        """A producer of messages that are delivered when they are committed, or never.

        Args:
            group: brokers ask any producer of this group about transactions left open.
            check: decides the outcome of such a transaction; may block, or be async.
        """
        self._check_open()
        producer = TransactionProducer(
            self.instance,
            group,
            check,
            config or ProducerConfig(),
            self._transaction_producers.discard,
        )
        self._transaction_producers.add(producer)
        return producer

    def requester(
        self, group: str = "DLEDGER_PRODUCER", config: ProducerConfig | None = None
    ) -> Requester:
        """A requester sends messages to which consumers reply (see `reply`)."""
        producer = self.producer(group, config)
        requester = Requester(self.instance, producer, self._requesters.discard)
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
            group: a producer group; with access control the account needs the right to publish for
                it and for the cluster's reply topic.

        Raises:
            InvalidRequest: the message asks for no reply.
            ServerError: the client that asked cannot be reached; most likely it is gone.
            ClusterError: the reply could not be sent; a repeat does no harm.
        """
        self._check_open()
        await send_reply(self.instance, message, body, group, properties)

    def consumer(self, *topics: str, group: str, config: ConsumerConfig | None = None) -> Consumer:
        """A member of a consumer group; the group shares the topics' queues."""
        return self._consumer(topics, group, config, is_reader=False)

    def reader(self, *topics: str, config: ConsumerConfig | None = None) -> Consumer:
        """A consumer without a group: it reads every queue and stores no offset."""
        # A pull needs a group name; a random one is no other consumer's.
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
        consumer = Consumer(
            self.instance,
            topics,
            group,
            config or ConsumerConfig(),
            is_reader=is_reader,
            on_close=self._consumers.discard,
        )
        self._consumers.add(consumer)
        return consumer

    def admin(self) -> Admin:
        """Administration: topics, groups, members and status."""
        self._check_open()
        return Admin(self.instance)

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
        await self.instance.close()

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
        """Take a request of a broker; ignore unknown and unreadable ones, as stock clients do."""
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
                # A reply without a waiting request is acknowledged, too, as by stock clients: it
                # may be a repeat of one that came.
                any(requester.replied(frame) for requester in list(self._requesters))
                taken = Frame(0, frame.opaque, flag=FLAG_RESPONSE, kind=frame.kind)
                connection.write(encode_frame(taken))
            elif frame.code == RequestCode.NOTIFY_LEADER_CHANGED:
                notice = decode(LeaderChangedNotice, frame.ext)
                self.leaders.told(notice.broker_name, notice.leader, notice.term)
        except (InvalidRequest, RemoteProtocolError, TypeError, ValueError):
            return
