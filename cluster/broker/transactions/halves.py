"""Half messages on their way in: they wait in the half topic, which has no consumers.

Source: docs/spec/store.md 7.3.

sysFlag prepared, TRAN_MSG=true ─► RMQ_SYS_TRANS_HALF_TOPIC, queue 0, transaction bits cleared,
                                   with REAL_TOPIC, REAL_QID and __transactionId__ = UNIQ_KEY
"""

from __future__ import annotations

from typing import Final

from cluster.broker.kernel.write.placement import Placement
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.core.delay.due import TIMER_NAMES
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.transactions.halves import WAITING_MAX, HalfTable
from cluster.errors import InvalidRequest, QueueFull
from cluster.protocol.send import SendRequest
from commitlog.errors import MessageTooLarge
from commitlog.records import property_names as names
from commitlog.records.message_fast import topic_field
from commitlog.records.names import HALF_TOPIC
from commitlog.records.properties import PROPERTIES_SIZE_MAX, find_property, with_property
from commitlog.records.sys_flag import TRANSACTION_MASK

_HALF = topic_field(HALF_TOPIC)
_TRAN_MSG, _DELAY = names.TRANSACTION_PREPARED.encode(), names.DELAY.encode()
_PRODUCER_GROUP, _UNIQUE_KEY = names.PRODUCER_GROUP.encode(), names.UNIQUE_KEY.encode()
_REAL_TOPIC, _REAL_QUEUE = names.REAL_TOPIC.encode(), names.REAL_QUEUE_ID.encode()
_TRANSACTION_ID: Final = names.TRANSACTION_ID.encode()
_TIMES: Final = names.TRANSACTION_CHECK_TIMES.encode()


class Halves:
    """Used on a leader."""

    def __init__(self, table: HalfTable, offsets: LeaderQueueOffsets) -> None:
        self._table, self._offsets = table, offsets

    def intercept(
        self, request: SendRequest, target: SendTarget, queue: int, stored: bytes, stamp_ms: int
    ) -> Placement | None:
        """An `Interceptor`. Raises InvalidRequest, MessageTooLarge or QueueFull."""
        if not target.sys_flag & TRANSACTION_MASK:
            return None
        if (find_property(stored, _TRAN_MSG) or b"").lower() != b"true":
            raise InvalidRequest(
                "the half of a transaction lacks its property TRAN_MSG; send it as true"
            )
        if find_property(stored, _DELAY) not in (None, b"0") or any(
            find_property(stored, name) is not None for name in TIMER_NAMES
        ):
            raise InvalidRequest("a transaction cannot be delayed; leave DELAY and TIMER_* out")
        if self._table.is_full:
            raise QueueFull(
                f"{WAITING_MAX} transactions have no outcome yet; send this one again later"
            )
        if find_property(stored, _PRODUCER_GROUP) is None and request.template.producer_group:
            group = request.template.producer_group.encode()
            stored = with_property(stored, _PRODUCER_GROUP, group)
        for name, value in (
            (_REAL_TOPIC, target.topic_name.encode()),
            (_REAL_QUEUE, b"%d" % queue),
            (_TRANSACTION_ID, find_property(stored, _UNIQUE_KEY) or b"?"),
        ):
            stored = with_property(stored, name, value)
        # Space for the count of checks that the producer is shown (39).
        if len(stored) + len(_TIMES) + 4 > PROPERTIES_SIZE_MAX:
            raise MessageTooLarge("properties", len(stored), PROPERTIES_SIZE_MAX)
        row = self._offsets.row(HALF_TOPIC, 1)
        return Placement(_HALF, 0, row, stored, target.sys_flag & ~TRANSACTION_MASK)
