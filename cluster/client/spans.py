"""Spans of one client: `send` until the receipt, `deliver` until the message is acknowledged.

    ClientConfig(tracing=True)   ─► ClientSpans, shared by the client's producers and consumers
    message sent                 ─► span "send TOPIC"; its context is the property traceparent
    message handed out           ─► span "deliver TOPIC", a child of the span that sent it

Imported only when a client has tracing on: it needs the extra otel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cluster.client.message import Receipt, ReceivedMessage
from cluster.client.producer.in_flight_batch import Waiter
from cluster.errors import ClusterError
from cluster.extras import missing_extra
from cluster.protocol.json_body import MessageQueue
from cluster.tracing.context import MARK, NAME, parent_of, property_of
from cluster.tracing.telemetry import (
    MESSAGE_ID,
    QUEUE_OFFSET,
    SYSTEM,
    TOPIC,
    below,
    parent_from,
    tracer_of,
)
from commitlog.records.properties import find_property

try:
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, use_span
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

Handler = Callable[[ReceivedMessage], Awaitable[object]]
GROUP = "messaging.consumer.group.name"
ATTEMPT = "messaging.rocketmq.attempt"
OPEN_MAX = 10_000
"""`deliver` spans of one consumer that are open; the oldest ends when one more begins. A program
that drops messages without an `ack`, or loses their queues, would hold ever more of them."""


class ClientSpans:
    """`provider`: OpenTelemetry's TracerProvider, or True for the program's global one."""

    def __init__(self, provider: Any) -> None:
        self._tracer = tracer_of(provider)

    def sending(self, topic: str, waiter: Waiter, tail: bytes) -> tuple[Waiter, bytes]:
        """Begin the span of a message with the properties `tail`; it ends with the receipt.

        Returns the waiter and the properties to send with. A message that has a context already is
        sent as it is: somebody's span has begun elsewhere.
        """
        if MARK in tail and find_property(tail, NAME) is not None:
            return waiter, tail
        attributes = {SYSTEM: "rocketmq", TOPIC: topic}
        span = self._tracer.start_span(
            f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        parent = parent_from(span)
        if not parent.trace_id:  # no provider is set: nobody would ever see it
            return waiter, tail
        return _waiting(span, waiter), tail + property_of(parent)

    def of_consumer(self, group: str) -> ConsumerSpans:
        """The spans of one consumer."""
        return ConsumerSpans(self._tracer, group)


def _waiting(span: Span, waiter: Waiter) -> Waiter:
    """The waiter, which ends the span, too."""
    if isinstance(waiter, asyncio.Future):

        def done(future: asyncio.Future[Receipt]) -> None:
            if future.cancelled():
                span.end()
            else:
                error = future.exception()
                _end(span, None if error else future.result(), error)

        waiter.add_done_callback(done)
        return waiter
    callback = waiter

    def told(receipt: Receipt | None, error: ClusterError | None) -> object:
        _end(span, receipt, error)
        return callback(receipt, error)

    return told


def _end(span: Span, receipt: Receipt | None, error: BaseException | None) -> None:
    if receipt is not None:
        span.set_attributes(
            {
                MESSAGE_ID: receipt.message_id,
                QUEUE_OFFSET: receipt.queue_offset,
                "dledger.index": receipt.index,
                "dledger.term": receipt.term,
            }
        )
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()


class ConsumerSpans:
    """Open `deliver` spans by the place of their message."""

    def __init__(self, tracer: Any, group: str) -> None:
        self._tracer, self._group = tracer, group
        self._open: dict[tuple[MessageQueue, int], Span] = {}

    def given(self, message: ReceivedMessage) -> ReceivedMessage:
        """The message is handed out now. Returns it."""
        parent = parent_of(message.property_block)
        place = message.queue, message.queue_offset
        if parent is not None:
            self.done(message, "handed out again")
            if len(self._open) >= OPEN_MAX:
                self._end(next(iter(self._open)), "not acknowledged")
            attributes = {
                SYSTEM: "rocketmq",
                TOPIC: message.queue.topic,
                GROUP: self._group,
                QUEUE_OFFSET: message.queue_offset,
                ATTEMPT: message.attempt,
            }
            self._open[place] = self._tracer.start_span(
                f"deliver {message.queue.topic}",
                context=below(parent),
                kind=SpanKind.CONSUMER,
                attributes=attributes,
            )
        return message

    def done(self, message: ReceivedMessage, error: str = "") -> None:
        """The message is acknowledged, or given back with an error."""
        self._end((message.queue, message.queue_offset), error)

    def _end(self, place: tuple[MessageQueue, int], error: str) -> None:
        span = self._open.pop(place, None)
        if span is not None:
            if error:
                span.set_status(Status(StatusCode.ERROR, error))
            span.end()

    def all_done(self) -> None:
        """Asking for the next message acknowledged all others; or the consumer is closed."""
        for span in self._open.values():
            span.end()
        self._open.clear()

    def around(self, handler: Handler) -> Handler:
        """The handler, with the span of its message as the current one."""

        async def handle(message: ReceivedMessage) -> object:
            span = self._open.get((message.queue, message.queue_offset))
            if span is None:
                return await handler(message)
            with use_span(span, end_on_exit=False, record_exception=True):
                return await handler(message)

        return handle
