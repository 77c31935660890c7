"""A transaction: a message that consumers see when its producer's own work is done, or never.

    begin ─► half message, on a majority's disks, hidden from consumers
          ─► the caller's work ─► commit: delivered once │ rollback: never delivered
    no outcome ─► the broker asks a producer of the group (39) ─► check ─► commit │ rollback

The same as in RocketMQ's clients (docs/spec/store.md 7.3, docs/spec/remoting.md 2.5). The first
outcome in the log counts, so a repeated or late one does no harm.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

from cluster.client.message import Receipt, ReceivedMessage
from cluster.protocol.headers import EndTransactionRequest
from cluster.protocol.json_body import MessageQueue


class Decision(enum.IntEnum):
    """The outcome of a transaction; the numbers are the protocol's (37)."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


PlainCheck = Callable[[ReceivedMessage], Decision]
Check = PlainCheck | Callable[[ReceivedMessage], Awaitable[Decision]]
"""Decides the outcome of a half message from records that each producer of the group can read."""

End = Callable[[MessageQueue, EndTransactionRequest], Awaitable[None]]
"""Sends an outcome to the leader of the queue's broker name, which logs it."""


class Transaction:
    """One half message; made by `TransactionProducer.begin`.

    As `async with` it commits when the body ends, and rolls back when the body raises.
    """

    def __init__(self, group: str, receipt: Receipt, end: End) -> None:
        self._group, self._receipt, self._send_end = group, receipt, end
        self._decision = Decision.UNKNOWN

    @property
    def receipt(self) -> Receipt:
        """The receipt of the half message; its `message_id` is the transaction's id, too."""
        return self._receipt

    @property
    def decision(self) -> Decision:
        """The outcome that a broker has logged for this object; UNKNOWN before that."""
        return self._decision

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if self._decision is Decision.UNKNOWN:
            await (self.commit() if kind is None else self.rollback())

    async def commit(self) -> None:
        """Have the message delivered to consumers.

        Raises:
            ServerError: the transaction ended before in another way; the first outcome counts.
            OutcomeUnknown, NotConnected: the commit may be logged; call again, or let the broker
                call `check`.
        """
        await self._end(Decision.COMMIT)

    async def rollback(self) -> None:
        """Have the message never delivered. Raises as `commit`."""
        await self._end(Decision.ROLLBACK)

    async def _end(self, decision: Decision) -> None:
        receipt = self._receipt
        request = EndTransactionRequest(
            self._group,
            receipt.queue_offset,
            receipt.position,
            decision,
            receipt.message_id,
            transaction_id=receipt.message_id,
            topic=receipt.queue.topic,
            bname=receipt.queue.broker_name,
        )
        await self._send_end(receipt.queue, request)
        self._decision = decision
