"""Sends half messages, ends them, and is asked about those that its group left open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.client.check_back import CheckBack
from cluster.client.config import ProducerConfig
from cluster.client.everywhere import Everywhere
from cluster.client.extra import encode_extra
from cluster.client.producer import Producer
from cluster.client.repeating import Repeating
from cluster.client.transaction import Check, Transaction
from cluster.errors import ClusterError, InvalidRequest, ServerError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import EndTransactionRequest, UnregisterClientRequest, encode
from cluster.protocol.heartbeat import HeartbeatData
from cluster.protocol.json_body import MessageQueue
from commitlog import property_names as names
from commitlog.properties import encode_properties
from commitlog.sys_flag import TRANSACTION_PREPARED

if TYPE_CHECKING:
    from cluster.client.client import Client

_log = logging.getLogger(__name__)


class TransactionProducer:
    """Made by `Client.transaction_producer`; use it with `async with`."""

    def __init__(self, client: Client, group: str, check: Check, config: ProducerConfig) -> None:
        if config.batching:
            raise InvalidRequest("a batch cannot hold transactions; leave batching out")
        self.client, self.group, self.config = client, group, config
        self._producer = Producer(client, group, config, sys_flag=TRANSACTION_PREPARED)
        self._half = encode_properties(
            {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: group}
        )
        self._check_back = CheckBack(group, check, self._end)
        self._topics: set[str] = set()
        self._everywhere = Everywhere(client, self._topics)
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
        """Store a message that nobody sees before it is committed; all else as `Producer.send`."""
        if topic not in self._topics:
            await self.open_topic(topic)
        extra = self._half + encode_extra(key, tags, properties)
        receipt = await self._producer.send_encoded(topic, body, extra, key=key, queue_id=queue_id)
        return Transaction(self.group, receipt, self._end)

    async def open_topic(self, topic: str) -> int:
        """Be asked about halves of this topic that others of the group left; its queues.

        `begin` does it by itself: brokers know a producer before they have a half of it.

        Raises:
            TopicNotFound, NotConnected: as `Producer.open_topic`.
        """
        count = await self._producer.open_topic(topic)
        self._topics.add(topic)
        await self._heartbeat()
        if self._beats is None:
            self._beats = self.client.spawn(self._keep_alive())
        return count

    async def close(self) -> None:
        """Wait for what is on its way; from then on brokers ask others of the group."""
        await self._check_back.close()
        await self._producer.close()
        if self._beats is not None:
            self._beats.cancel()
            self._beats = None
            goodbye = UnregisterClientRequest(self.client.client_id, self.group)
            await self._everywhere.leave(goodbye)
        self.client.forget_transaction_producer(self)

    def abandon(self) -> None:
        """Close without waiting and without a goodbye, as a process that dies does."""
        self._check_back.abandon()
        self._producer.abandon()
        if self._beats is not None:
            self._beats.cancel()
            self._beats = None
        self.client.forget_transaction_producer(self)

    # --- what the client tells -------------------------------------------------------------------

    def leader_changed(self, broker_name: str) -> None:
        """The client learned of a new leader."""
        self._producer.leader_changed(broker_name)

    def asked(self, frame: Frame) -> None:
        """A broker asks what becomes of a half message (39). Raises InvalidRequest."""
        self._check_back.asked(frame)

    # --- inside ----------------------------------------------------------------------------------

    async def _end(self, queue: MessageQueue, request: EndTransactionRequest) -> None:
        """37, until the leader has logged it. A refusal that is no matter of time is final."""
        asking = Repeating(self.client, queue, time_limit=self.config.delivery_timeout)
        await asking.ask(RequestCode.END_TRANSACTION, encode(request), final=ServerError)

    async def _heartbeat(self) -> None:
        await self._everywhere.heartbeat(HeartbeatData(self.client.client_id, (self.group,)))

    async def _keep_alive(self) -> None:
        while True:  # until the producer is closed
            await asyncio.sleep(self.client.config.heartbeat_period)
            try:
                await self._heartbeat()
            except ClusterError as error:
                _log.info("%s: the heartbeat is sent again later: %s", self.group, error)
