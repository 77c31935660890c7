"""Reads one queue ahead of its user: long polls at the leader into a bounded buffer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from cluster.client.config import ConsumerConfig
from cluster.client.connection.connection import Connection
from cluster.client.consumer.offset_stores import AckTracker, OffsetStore
from cluster.client.consumer.pull_answers import messages_in
from cluster.client.message import ReceivedMessage
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.offset_lookup import FIRST, LAST, offset_at
from cluster.client.routing.retry_rules import Action, is_final, rule_for
from cluster.errors import ClusterError, ConnectionLost, NotLeader
from cluster.protocol.codes import RequestCode, ResponseCode, exception_for
from cluster.protocol.frames import Frame
from cluster.protocol.headers import (
    PULL_FLAG_SUBSCRIPTION,
    PULL_FLAG_SUSPEND,
    PullRequest,
    PullResponse,
    decode,
    encode,
)
from cluster.protocol.heartbeat import Subscription
from cluster.protocol.json_body import MessageQueue
from commitlog.errors import StoreDamaged
from commitlog.records.names import RETRY_PREFIX

PAUSE_MAX = 1.0
"""Longest pause between two attempts after failures, in seconds."""

_log = logging.getLogger(__name__)
_RESULTS = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class ReadAhead:
    """Bytes that all queue readers of one consumer hold, so that they share one limit.

    Attributes:
        size: bytes of the bodies held.
    """

    def __init__(self, size_max: int, on_space: Callable[[], None]) -> None:
        """`on_space` is called when the bytes fall below `size_max`."""
        self.size = 0
        self._size_max, self._on_space = size_max, on_space

    @property
    def is_full(self) -> bool:
        """True if readers that hold a message must not pull more."""
        return self.size >= self._size_max

    def add(self, size: int) -> None:
        """Count `size` bytes more, or less if it is negative."""
        was_full = self.size >= self._size_max
        self.size += size
        if was_full and self.size < self._size_max:
            self._on_space()


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """The parts that all queue readers of one consumer share.

    Attributes:
        offsets: where the consumer's offsets are stored.
        ahead: the limit of bytes held.
        on_messages: called with a reader that has got messages.
        on_refusal: called with an error that a later pull would meet again, and with None when
            a pull was served.
    """

    instance: ClientInstance
    group: str
    config: ConsumerConfig
    offsets: OffsetStore
    ahead: ReadAhead
    on_messages: Callable[[QueueReader], None]
    on_refusal: Callable[[ClusterError | None], None]


class Handed(NamedTuple):
    """Messages of one queue that were handed out together, and where each is acknowledged."""

    reader: QueueReader
    acks: AckTracker
    messages: list[ReceivedMessage]


class QueueReader:
    """One queue of a consumer. Made when the queue is assigned, stopped when it is taken away.

    Attributes:
        buffer: messages that were pulled and not handed out.
        hand: messages that were handed out and are given to the user one by one (hand.py).
        acks: None before the queue's first offset is known.
        committed: the offset that was stored last; -1 before.
        is_stopped: the queue was taken away.
    """

    def __init__(
        self, context: ReaderContext, queue: MessageQueue, subscription: Subscription
    ) -> None:
        self.queue = queue
        self.buffer: deque[ReceivedMessage] = deque()
        self.hand: deque[ReceivedMessage] = deque()
        self.acks: AckTracker | None = None
        self.committed = -1
        self._context, self._instance, self._config = context, context.instance, context.config
        self._subscription = subscription
        self._next = 0
        self._space = asyncio.Event()
        self._pull: asyncio.Task[Frame] | None = None
        self._address = ""
        self.is_stopped = False
        self._seeks = 0
        self._task = asyncio.ensure_future(self._run())

    def take(self, count_max: int) -> Handed:
        """Hand out the next buffered messages, at most `count_max`; at least one is there."""
        acks, buffer = self.acks, self.buffer
        assert acks is not None, "nothing is buffered before the position is known"
        if count_max == 1:
            message = buffer.popleft()
            messages, size = [message], len(message.stored_body)
            acks.handed_out(message.queue_offset)
        else:
            count = min(count_max, len(buffer))
            messages = list(islice(buffer, count))
            if count == len(buffer):
                buffer.clear()
            else:
                for _ in messages:
                    buffer.popleft()
            size = sum([len(message.stored_body) for message in messages])
            acks.all_handed_out([message.queue_offset for message in messages])
        if not buffer:
            acks.skipped_to(self._next)
        self._context.ahead.add(-size)
        self._space.set()
        return Handed(self, acks, messages)

    def put_back(self, message: ReceivedMessage) -> None:
        """Take back the message that was handed out last; it is the next one again."""
        assert self.acks is not None, "a message was handed out"
        self.acks.taken_back(message.queue_offset)
        self.buffer.appendleft(message)
        self._context.ahead.add(len(message.stored_body))

    def wake(self) -> None:
        """Look again whether there is space: another reader has freed some."""
        self._space.set()

    def leader_changed(self, address: str | None) -> None:
        """Send a pull that waits at a former leader again, to the new one at `address`."""
        if self._pull is not None and self._address != address:
            self._pull.cancel()

    def halt(self) -> None:
        """Pull no more: an answer that is here already is not taken in."""
        self.is_stopped = True
        self._task.cancel()

    async def stop(self) -> None:
        """Pull no more, drop the buffer and store the offset."""
        self.halt()
        await asyncio.gather(self._task, return_exceptions=True)
        self._drop_buffer()
        try:
            await self.commit()
        except ClusterError as error:
            _log.warning("the position in %s was not stored: %s", self.queue, error)

    async def commit(self) -> None:
        """Store the offset if it changed. Raises ClusterError."""
        if self.acks is None or self.acks.position == self.committed:
            return
        position = self.acks.position
        await self._context.offsets.store(self.queue, position)
        self.committed = position

    def seek(self, queue_offset: int) -> None:
        """Go on at `queue_offset`: drop the buffer, ignore acknowledgements of earlier messages."""
        self._seeks += 1
        self._drop_buffer()
        self._next = queue_offset
        self.acks = AckTracker(queue_offset)
        self._space.set()
        if self._pull is not None:
            self._pull.cancel()

    def _drop_buffer(self) -> None:
        self._context.ahead.add(-sum(len(message.stored_body) for message in self.buffer))
        self.buffer.clear()
        self.hand.clear()

    async def _run(self) -> None:
        is_first_failure = True
        pause = 0.0
        while not self.is_stopped:
            try:
                if self.acks is None:
                    found = await self._find_start()
                    if self.acks is None:  # no `seek` meanwhile
                        self._next, self.acks = found, AckTracker(found)
                await self._wait_for_space()
                await self._pull_once(look=not is_first_failure)
                is_first_failure, pause = True, 0.0
                self._context.on_refusal(None)
            except ClusterError as error:
                if is_final(error):
                    self._context.on_refusal(error)
                rule = rule_for(error)
                if isinstance(error, NotLeader) and error.leader:
                    self._instance.leaders.hint(self.queue.broker_name, error.leader)
                if rule.action is Action.GIVE_UP:
                    _log.warning("pulling %s failed and is tried again: %s", self.queue, error)
                    pause = PAUSE_MAX
                is_first_failure = False
                await asyncio.sleep(max(pause, rule.pause))
                pause = min(PAUSE_MAX, max(rule.pause, pause * 2))

    async def _find_start(self) -> int:
        """The stored offset of this queue, or the one at which the settings begin."""
        found = await self._context.offsets.find(self.queue)
        if found is not None:
            self.committed = found
            return found
        # This offset is stored, too. Else messages that come while the consumer is away would lie
        # before "last" when it is back.
        return await self._bound()

    async def _bound(self) -> int:
        """The queue's first offset, or its end, according to `ConsumerConfig.start`."""
        is_retry = self.queue.topic.startswith(RETRY_PREFIX)  # each of its messages is this group's
        is_last = self._config.start == "last" and not is_retry
        return await offset_at(self._instance, self.queue, LAST if is_last else FIRST)

    async def _wait_for_space(self) -> None:
        config = self._config
        while len(self.buffer) >= config.ahead_count_max or (
            self.buffer and self._context.ahead.is_full
        ):
            self._space.clear()
            await self._space.wait()

    async def _pull_once(self, *, look: bool) -> None:
        queue, config = self.queue, self._config
        request = PullRequest(
            self._context.group,
            queue.topic,
            queue.queue_id,
            self._next,
            config.pull_count_max,
            PULL_FLAG_SUSPEND | PULL_FLAG_SUBSCRIPTION,
            0,
            int(config.suspend * 1000),
            self._subscription.version,
            self._subscription.expression,
            self._subscription.expression_type,
            config.pull_bytes_max,
            bname=queue.broker_name,
        )
        seeks = self._seeks
        connection = await self._instance.leaders.connection(
            queue.broker_name, queue.topic, look=look
        )
        answer = await self._call(connection, encode(request))
        if answer is None or seeks != self._seeks:
            return  # after a `seek` the answer is for another offset
        if answer.code not in (*_RESULTS, ResponseCode.PULL_OFFSET_MOVED):
            raise exception_for(answer.code, answer.remark, answer.ext)
        following = decode(PullResponse, answer.ext).next_begin_offset
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            _log.warning(
                "%s: position %d does not exist; it moves to %d", queue, self._next, following
            )
        if answer.code == ResponseCode.SUCCESS:
            self._take_in(answer.body)
        self._next = following
        if not self.buffer and self.acks is not None:
            self.acks.skipped_to(following)

    async def _call(self, connection: Connection, ext: dict[str, str]) -> Frame | None:
        """One pull; None if it was cancelled by a new leader or a `seek`."""
        limit = self._config.suspend + self._instance.config.request_timeout
        self._address = connection.address
        self._pull = asyncio.ensure_future(
            connection.call(RequestCode.PULL_MESSAGE, ext, time_limit=limit)
        )
        try:
            return await self._pull
        except asyncio.CancelledError:
            this = asyncio.current_task()
            is_ours = this is not None and this.cancelling() > 0  # as when a program's loop ends
            if self.is_stopped or is_ours or not self._pull.cancelled():
                self._pull.cancel()
                raise
            return None
        finally:
            self._pull = None

    def _take_in(self, body: bytes) -> None:
        """Buffer the records that the subscription wants. Raises ConnectionLost at damage."""
        subscription = self._subscription
        wants = subscription.wants if subscription.tags else None
        try:
            messages, size = messages_in(self.queue, body, self._next, wants)
        except StoreDamaged as error:
            raise ConnectionLost(f"{self.queue}: a pulled record is damaged: {error}") from error
        self.buffer.extend(messages)
        self._context.ahead.add(size)
        if self.buffer:
            self._context.on_messages(self)
