"""Sends half messages, ends them, and answers brokers about halves that its group left open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from cluster.client.config import ProducerConfig
from cluster.client.producer.message_properties import encode_extra
from cluster.client.producer.producer import Producer
from cluster.client.producer.transaction import Check, Transaction
from cluster.client.producer.transaction_checks import TransactionChecks
from cluster.client.routing.broadcast import BrokerBroadcast
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import RetryingRequest
from cluster.errors import ClusterError, InvalidRequest, ServerError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import EndTransactionRequest, UnregisterClientRequest, encode
from cluster.protocol.heartbeat import HeartbeatData
from cluster.protocol.json_body import MessageQueue
from commitlog.records import property_names as names
from commitlog.records.properties import encode_properties
from commitlog.records.sys_flag import TRANSACTION_PREPARED

_log = logging.getLogger(__name__)


class TransactionProducer:
    """Made by `Client.transaction_producer`; use it with `async with`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        check: Check,
        config: ProducerConfig,
        on_close: Callable[[TransactionProducer], object],
    ) -> None:
        """`on_close` is called when the producer is closed."""
        if config.batching:
            raise InvalidRequest("a batch cannot hold transactions; leave batching out")
        self.group, self.config = group, config
        self._instance, self._on_close = instance, on_close
        self._producer = Producer(instance, group, config, sys_flag=TRANSACTION_PREPARED)
        self._half = encode_properties(
            {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: group}
        )
        self._checks = TransactionChecks(group, check, self._end)
        self._topics: set[str] = set()
        self._broadcast = BrokerBroadcast(instance, self._topics)
        self._beats: asyncio.Task[None] | None = None

    async def __aenter__(self) -> TransactionProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def begin(
        self,
        topic: str,
        body: bytes,
        *,
        key: str | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> Transaction:
        """Store a message that consumers see once it is committed; all else as `Producer.send`."""
        if topic not in self._topics:
            await self.open_topic(topic)
        extra = self._half + encode_extra(key, tags, properties)
        receipt = await self._producer.send_encoded(topic, body, extra, key=key, queue_id=queue_id)
        return Transaction(self.group, receipt, self._end)

    async def open_topic(self, topic: str) -> int:
        """Tell the brokers of a topic that this producer answers for its group's halves.

        `begin` does it by itself, so that brokers know a producer before they have a half of it.
        Returns the number of the topic's queues.

        Raises:
            TopicNotFound, NotConnected: as `Producer.open_topic`.
        """
        count = await self._producer.open_topic(topic)
        self._topics.add(topic)
        await self._heartbeat()
        if self._beats is None:
            self._beats = self._instance.spawn(self._keep_alive())
        return count

    async def close(self) -> None:
        """Wait for receipts and say goodbye; brokers then ask other producers of the group."""
        await self._checks.close()
        await self._producer.close()
        if self._beats is not None:
            self._beats.cancel()
            self._beats = None
            goodbye = UnregisterClientRequest(self._instance.client_id, self.group)
            await self._broadcast.leave(goodbye)
        self._on_close(self)

    def abandon(self) -> None:
        """Close without waiting and without a goodbye, as a killed process does."""
        self._checks.abandon()
        self._producer.abandon()
        if self._beats is not None:
            self._beats.cancel()
            self._beats = None
        self._on_close(self)

    # --- for the client ---------------------------------------------------------------------------

    def leader_changed(self, broker_name: str) -> None:
        """Send to the new leader of `broker_name`; the client calls this."""
        self._producer.leader_changed(broker_name)

    def asked(self, frame: Frame) -> None:
        """Answer a broker that asks for an outcome (39). Raises InvalidRequest."""
        self._checks.asked(frame)

    # --- inside ----------------------------------------------------------------------------------

    async def _end(self, queue: MessageQueue, request: EndTransactionRequest) -> None:
        """Send request 37 until the leader has logged it; a ServerError is final."""
        asking = RetryingRequest(self._instance, queue, time_limit=self.config.delivery_timeout)
        await asking.ask(RequestCode.END_TRANSACTION, encode(request), final=ServerError)

    async def _heartbeat(self) -> None:
        await self._broadcast.heartbeat(HeartbeatData(self._instance.client_id, (self.group,)))

    async def _keep_alive(self) -> None:
        while True:  # until the producer is closed
            await asyncio.sleep(self._instance.config.heartbeat_period)
            try:
                await self._heartbeat()
            except ClusterError as error:
                _log.info("%s: the heartbeat is sent again later: %s", self.group, error)
