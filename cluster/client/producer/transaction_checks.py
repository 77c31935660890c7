"""Answers brokers that ask for the outcome of a half message (39; docs/spec/store.md 7.3)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import cast

from cluster.client.message import ReceivedMessage, received
from cluster.client.producer.transaction import Check, Decision, End, PlainCheck
from cluster.errors import ClusterError
from cluster.protocol.frames import Frame
from cluster.protocol.headers import CheckTransactionRequest, EndTransactionRequest, decode
from cluster.protocol.json_body import MessageQueue
from commitlog.errors import StoreDamaged
from commitlog.records import property_names as names
from commitlog.records.message import decode_message

CHECKS_COUNT_MAX = 64
"""Questions answered at once; further ones are dropped, and the broker asks again."""

_log = logging.getLogger(__name__)


class TransactionChecks:
    """Answers for one group. A plain `check` runs in a thread, because it may block.

    If `check` raises, the outcome stays unknown and the broker asks again.
    """

    def __init__(self, group: str, check: Check, end: End) -> None:
        self._group, self._check, self._end = group, check, end
        self._answering: set[asyncio.Task[None]] = set()

    def asked(self, frame: Frame) -> None:
        """Answer a broker's question in the background, if it is about this group.

        Raises:
            InvalidRequest: the question cannot be read.
        """
        request = decode(CheckTransactionRequest, frame.ext)
        try:
            stored = decode_message(frame.body)
        except StoreDamaged as error:
            _log.warning("a broker asks about a half message that cannot be read: %s", error)
            return
        is_ours = stored.properties.get(names.PRODUCER_GROUP) == self._group
        if not is_ours or len(self._answering) >= CHECKS_COUNT_MAX:
            return
        queue = MessageQueue(stored.topic, request.bname or "", stored.queue_id)
        task = asyncio.ensure_future(self._answer(request, received(queue, stored)))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def close(self) -> None:
        """Cancel the answers under way and wait until they have ended."""
        answering = list(self._answering)
        self.abandon()
        await asyncio.gather(*answering, return_exceptions=True)

    def abandon(self) -> None:
        """As `close`, without waiting."""
        for task in self._answering:
            task.cancel()

    async def _answer(self, request: CheckTransactionRequest, message: ReceivedMessage) -> None:
        decision = await self._decide(message)
        if decision is Decision.UNKNOWN:
            return
        answer = EndTransactionRequest(
            self._group,
            request.tran_state_table_offset,
            request.commit_log_offset,
            decision,
            message.message_id,
            from_transaction_check=True,
            transaction_id=request.transaction_id,
            topic=message.topic,
            bname=request.bname,
        )
        try:
            await self._end(message.queue, answer)
        except ClusterError as error:
            _log.info("the answer about %s was not taken: %s", message.message_id, error)

    async def _decide(self, message: ReceivedMessage) -> Decision:
        try:
            if inspect.iscoroutinefunction(self._check):
                return Decision(await self._check(message))
            return Decision(await asyncio.to_thread(cast(PlainCheck, self._check), message))
        except Exception:
            _log.exception("check raised for %s; the broker asks again", message.message_id)
            return Decision.UNKNOWN
