"""Handlers: one that returns acks its message, one that raises gives it back, one that is cancelled
leaves it to the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cluster.client.message import ReceivedMessage
from cluster.errors import ClientClosed, ClusterError, InvalidRequest
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.consumer import Consumer

Handler = Callable[[ReceivedMessage], Awaitable[object]]

GIVE_BACK_PAUSE = 1.0
"""Seconds before a message that the broker did not take back is given back again."""
END_SECONDS_MAX = 10.0
"""For handlers of an ordered consumer that is closed; then their locks end by themselves."""

_log = logging.getLogger(__name__)


async def handle(consumer: Consumer, handler: Handler, concurrency: int) -> None:
    """See `Consumer.run`. Raises InvalidRequest for settings that do not fit."""
    if not consumer.config.manual_ack:
        raise InvalidRequest("run acknowledges by itself; set ConsumerConfig(manual_ack=True)")
    if concurrency < 1:
        raise InvalidRequest(f"{concurrency} handlers at once are impossible; give at least 1")
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(_work(consumer, handler))


async def handlers_ended(consumer: Consumer) -> set[MessageQueue]:
    """Wait for handlers, but for one that closes its own consumer; queues of those that go on."""
    waited = set(consumer.handling) - {asyncio.current_task()}
    if waited:
        await asyncio.wait(waited, timeout=END_SECONDS_MAX)
    return {consumer.handling[task].queue for task in waited if task in consumer.handling}


async def _work(consumer: Consumer, handler: Handler) -> None:
    this = asyncio.current_task()
    assert this is not None, "it is one of a group's tasks"
    while True:  # until the consumer is closed
        try:
            message = await consumer.receive()
        except ClientClosed:
            return
        assert message is not None, "without a limit there is always a message"
        consumer.handling[this] = message
        try:
            await handler(message)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and this.cancelling():
                raise  # this task is cancelled, and not something that the handler awaited
            consumer.handler_failures += 1
            _log.warning(
                "%s: the handler failed for %s, queue %d, offset %d, at attempt %d of %d, and it "
                "is given back: %r",
                consumer.group,
                message.topic,
                message.queue.queue_id,
                message.queue_offset,
                message.attempt,
                consumer.config.max_attempts,
                error,
                exc_info=error,
            )
            await _give_back(consumer, message)
        else:
            consumer.ack(message)
        finally:
            del consumer.handling[this]


async def _give_back(consumer: Consumer, message: ReceivedMessage) -> None:
    """It is not acked before a broker has it; one that no broker takes comes again when the group's
    consumers start anew, and the others of its queue go on.
    """
    while not consumer.is_closed:
        try:
            await consumer.nack(message)
            return
        except ClusterError as error:
            if not error.retriable:
                _log.warning(
                    "%s: queue %d of %s, offset %d, cannot be given back, so the group's position "
                    "stays before it: %s",
                    consumer.group,
                    message.queue.queue_id,
                    message.topic,
                    message.queue_offset,
                    error,
                )
                consumer.pass_over(message)
                return
            _log.info("%s: a message is given back again later: %s", consumer.group, error)
            await asyncio.sleep(GIVE_BACK_PAUSE)
