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

if TYPE_CHECKING:
    from cluster.client.consumer import Consumer

Handler = Callable[[ReceivedMessage], Awaitable[object]]

GIVE_BACK_PAUSE = 1.0
"""Seconds before a message that the broker did not take back is given back again."""

_log = logging.getLogger(__name__)


async def handle(consumer: Consumer, handler: Handler, concurrency: int) -> None:
    """See `Consumer.run`. Raises InvalidRequest for settings that do not fit."""
    if not consumer.config.manual_ack:
        raise InvalidRequest("run acks by itself: set ConsumerConfig(manual_ack=True)")
    if concurrency < 1:
        raise InvalidRequest(f"{concurrency} handlers at once are impossible; give at least 1")
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(_work(consumer, handler))


async def _work(consumer: Consumer, handler: Handler) -> None:
    while True:  # until the consumer is closed
        try:
            message = await consumer.receive()
        except ClientClosed:
            return
        assert message is not None, "without a limit there is always a message"
        try:
            await handler(message)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
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
