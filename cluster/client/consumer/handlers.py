"""Handlers of messages, and how a message goes on after its handler failed.

    handler returns         the message is acknowledged
    handler raises          the message is sent back (request 36): the group gets it again later,
                            and after `max_attempts` it becomes a dead letter; a broadcasting
                            member retries nothing, so it is logged and acknowledged, as
                            RocketMQ's are
    handler is cancelled    neither: the group gets the message again when this member is gone

Retry and dead-letter topics are RocketMQ's, so a Java consumer of the group may handle a message
that this client sends back, and the other way round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cluster.client.message import ReceivedMessage
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.errors import ClientClosed, ClusterError, InvalidRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import SendBackRequest, encode
from cluster.protocol.json_body import MessageQueue
from commitlog.records.property_names import ORIGIN_MESSAGE_ID

Handler = Callable[[ReceivedMessage], Awaitable[object]]

DELAY_LEVEL_MAX = 18  # of RocketMQ's levels: 2 h
SEND_BACK_PAUSE = 1.0
"""Seconds before the next attempt to send a message back that the broker did not take."""
END_SECONDS_MAX = 10.0
"""How long a closed ordered consumer waits for its handlers; later their locks expire."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MessageActions:
    """The consumer's methods that handlers need; see `Consumer`.

    They are handed in, so that this module does not import the consumer that imports it.
    """

    receive: Callable[[], Awaitable[ReceivedMessage | None]]
    ack: Callable[[ReceivedMessage], None]
    nack: Callable[[ReceivedMessage], Awaitable[None]]
    pass_over: Callable[[ReceivedMessage], None]


class HandlerRunner:
    """Runs the handlers of one consumer.

    Attributes:
        failures: how many handlers have raised.
    """

    def __init__(
        self, group: str, attempts_max: int, actions: MessageActions, *, retries: bool
    ) -> None:
        """`retries`: whether there is a group that gets failed messages again."""
        self._group, self._attempts_max, self._actions = group, attempts_max, actions
        self._retries = retries
        self.failures = 0
        self._is_stopped = False
        #: Tasks that are in their handler now → its message.
        self._handling: dict[asyncio.Task[None], ReceivedMessage] = {}

    async def run(self, handler: Handler, concurrency: int) -> None:
        """Handle messages with `concurrency` tasks until the consumer is closed.

        Raises ClusterError, when all handlers have ended, if no more messages can come.
        """
        refusals: list[ClusterError] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._work(handler, refusals))
        if refusals:
            raise refusals[0]

    def stop(self) -> None:
        """Do not retry to send messages back: the consumer is closed."""
        self._is_stopped = True

    async def wait_until_ended(self) -> set[MessageQueue]:
        """Wait for handlers, `END_SECONDS_MAX` at most. Returns the queues of those that go on.

        A handler that closes its own consumer calls this, and is not waited for.
        """
        waited = set(self._handling) - {asyncio.current_task()}
        if waited:
            await asyncio.wait(waited, timeout=END_SECONDS_MAX)
        return {self._handling[task].queue for task in waited if task in self._handling}

    async def _work(self, handler: Handler, refusals: list[ClusterError]) -> None:
        this = asyncio.current_task()
        assert this is not None, "it is one of a group's tasks"
        while True:  # until the consumer is closed
            try:
                message = await self._actions.receive()
            except ClientClosed:
                return
            except ClusterError as error:
                refusals.append(error)
                return
            assert message is not None, "without a limit there is always a message"
            self._handling[this] = message
            try:
                await handler(message)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and this.cancelling():
                    raise  # this task is cancelled, and not an awaitable of the handler
                self.failures += 1
                self._log_failure(message, error)
                if self._retries:
                    await self._send_back(message)
                else:
                    self._actions.ack(message)
            else:
                self._actions.ack(message)
            finally:
                del self._handling[this]

    def _log_failure(self, message: ReceivedMessage, error: BaseException) -> None:
        _log.warning(
            "%s: the handler failed for %s, queue %d, offset %d, at attempt %d of %d, and it is "
            "%s: %r",
            self._group,
            message.topic,
            message.queue.queue_id,
            message.queue_offset,
            message.attempt,
            self._attempts_max if self._retries else 1,
            "given back" if self._retries else "passed over, as this member retries nothing",
            error,
            exc_info=error,
        )

    async def _send_back(self, message: ReceivedMessage) -> None:
        """Send a message back until a broker takes it.

        The message is acknowledged only then. If a broker refuses it for good, the group's offset
        stays before it, so it comes again when the group's consumers start anew; later messages of
        its queue are handled meanwhile.
        """
        while not self._is_stopped:
            try:
                await self._actions.nack(message)
                return
            except ClusterError as error:
                if not error.retriable:
                    _log.warning(
                        "%s: queue %d of %s, offset %d, cannot be given back, so the group's "
                        "position stays before it: %s",
                        self._group,
                        message.queue.queue_id,
                        message.topic,
                        message.queue_offset,
                        error,
                    )
                    self._actions.pass_over(message)
                    return
                _log.info("%s: a message is given back again later: %s", self._group, error)
                await asyncio.sleep(SEND_BACK_PAUSE)


def check_level(delay_level: int) -> None:
    """Raises InvalidRequest where RocketMQ would take its last level, 2 h."""
    if not -1 <= delay_level <= DELAY_LEVEL_MAX:
        raise InvalidRequest(
            f"delay_level is {delay_level}, which is a level and no time; give 0, -1, or 1 to "
            f"{DELAY_LEVEL_MAX}"
        )


class SendBack:
    """Sends messages of one group back to the broker (request 36)."""

    def __init__(self, instance: ClientInstance, group: str, attempts_max: int) -> None:
        """`attempts_max`: how often a message is handed out before it becomes a dead letter."""
        self._instance, self._group, self._attempts_max = instance, group, attempts_max

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Return when a majority has stored the copy that comes again.

        Raises:
            ClusterError: the broker refused, or could not be reached. If the outcome is unknown, a
                retry may let the message come twice.
        """
        queue = message.queue
        request = SendBackRequest(
            message.position,
            self._group,
            delay_level,
            message.properties.get(ORIGIN_MESSAGE_ID, message.message_id),
            message.topic,
            max_reconsume_times=self._attempts_max - 1,
            bname=queue.broker_name,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        await ask_leader(self._instance, queue.broker_name, queue.topic, code, encode(request))
