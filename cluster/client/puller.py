"""Reads one queue ahead of its user: long polls at the leader, a bounded buffer, the position."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from cluster.client.acks import Acks
from cluster.client.connection import Connection
from cluster.client.message import ReceivedMessage, received
from cluster.client.places import FIRST, LAST, offset_at
from cluster.client.retry import Action, rule_for
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
from commitlog.message import decode_message
from commitlog.names import RETRY_PREFIX

if TYPE_CHECKING:
    from cluster.client.consumer import Consumer

PAUSE_MAX = 1.0
"""Seconds between attempts while something is wrong that time may mend."""

_log = logging.getLogger(__name__)
_RESULTS = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class QueueReader:
    """One queue of a consumer. Made when the queue is assigned, stopped when it is taken away."""

    def __init__(self, consumer: Consumer, queue: MessageQueue, subscription: Subscription) -> None:
        self.queue = queue
        self.buffer: deque[ReceivedMessage] = deque()
        self.acks: Acks | None = None
        self.committed = -1
        self._consumer, self._client = consumer, consumer.client
        self._config = consumer.config
        self._subscription = subscription
        self._next = 0
        self._room = asyncio.Event()
        self._pull: asyncio.Task[Frame] | None = None
        self._address = ""
        self._is_stopped = False
        self._seeks = 0
        self._task = asyncio.ensure_future(self._run())

    def take(self) -> ReceivedMessage:
        """Hand the next buffered message out."""
        assert self.acks is not None, "nothing is buffered before the position is known"
        message = self.buffer.popleft()
        self.acks.handed_out(message.queue_offset)
        if not self.buffer:
            self.acks.skipped_to(self._next)
        self._consumer.held(-len(message.stored_body))
        self._room.set()
        return message

    def put_back(self, message: ReceivedMessage) -> None:
        """The message that was handed out last is the next one again."""
        assert self.acks is not None, "a message was handed out"
        self.acks.taken_back(message.queue_offset)
        self.buffer.appendleft(message)
        self._consumer.held(len(message.stored_body))

    def wake(self) -> None:
        """Room was made elsewhere."""
        self._room.set()

    def leader_changed(self, address: str | None) -> None:
        """A pull that is parked at a former leader is sent again to the new one."""
        if self._pull is not None and self._address != address:
            self._pull.cancel()

    async def stop(self) -> None:
        """Pull no more; the position is committed, what is buffered is dropped."""
        self._is_stopped = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._drop_buffer()
        try:
            await self.commit()
        except ClusterError as error:
            _log.warning("the position in %s was not stored: %s", self.queue, error)

    async def commit(self) -> None:
        """Store the position if it changed. Raises ClusterError."""
        if self.acks is None or self.acks.position == self.committed:
            return
        position = self.acks.position
        await self._consumer.positions.store(self.queue, position)
        self.committed = position

    def seek(self, queue_offset: int) -> None:
        """Go on there: what is buffered is dropped, what the user has in hand is not told to us
        any more.
        """
        self._seeks += 1
        self._drop_buffer()
        self._next = queue_offset
        self.acks = Acks(queue_offset)
        self._room.set()
        if self._pull is not None:
            self._pull.cancel()

    def _drop_buffer(self) -> None:
        self._consumer.held(-sum(len(message.stored_body) for message in self.buffer))
        self.buffer.clear()

    async def _run(self) -> None:
        is_first_failure = True
        pause = 0.0
        while not self._is_stopped:
            try:
                if self.acks is None:
                    found = await self._find_start()
                    if self.acks is None:  # nobody said meanwhile where to begin
                        self._next, self.acks = found, Acks(found)
                await self._wait_for_room()
                await self._pull_once(look=not is_first_failure)
                is_first_failure, pause = True, 0.0
            except ClusterError as error:
                rule = rule_for(error)
                if isinstance(error, NotLeader) and error.leader:
                    self._client.leaders.hint(self.queue.broker_name, error.leader)
                if rule.action is Action.GIVE_UP:
                    _log.warning("pulling %s failed and is tried again: %s", self.queue, error)
                    pause = PAUSE_MAX
                is_first_failure = False
                await asyncio.sleep(max(pause, rule.pause))
                pause = min(PAUSE_MAX, max(rule.pause, pause * 2))

    async def _find_start(self) -> int:
        """The position in this queue, or where one without a position begins."""
        found = await self._consumer.positions.find(self.queue)
        if found is not None:
            self.committed = found
            return found
        # Where it begins is stored, too: messages that come while it is away are not behind "last"
        # when it is back.
        return await self._bound()

    async def _bound(self) -> int:
        """The queue's first offset, or its end, as the settings say."""
        is_retry = self.queue.topic.startswith(RETRY_PREFIX)  # all of it is this group's own
        is_last = self._config.start == "last" and not is_retry
        return await offset_at(self._client, self.queue, LAST if is_last else FIRST)

    async def _wait_for_room(self) -> None:
        config = self._config
        while len(self.buffer) >= config.ahead_count_max or (
            self.buffer and self._consumer.held_bytes >= config.ahead_bytes_max
        ):
            self._room.clear()
            await self._room.wait()

    async def _pull_once(self, *, look: bool) -> None:
        queue, config = self.queue, self._config
        request = PullRequest(
            self._consumer.group,
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
        connection = await self._client.leaders.connection(
            queue.broker_name, queue.topic, look=look
        )
        answer = await self._call(connection, encode(request))
        if answer is None or seeks != self._seeks:
            return  # it tells of another place than the one that is wanted now
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
        """One pull; None when it was called off: another replica leads now, or there was a seek."""
        limit = self._config.suspend + self._client.config.request_timeout
        self._address = connection.address
        self._pull = asyncio.ensure_future(
            connection.call(RequestCode.PULL_MESSAGE, ext, time_limit=limit)
        )
        try:
            return await self._pull
        except asyncio.CancelledError:
            if self._is_stopped or not self._pull.cancelled():
                self._pull.cancel()
                raise
            return None
        finally:
            self._pull = None

    def _take_in(self, body: bytes) -> None:
        """Decode records up to the first bad one, keep those that the subscription wants."""
        at, size = 0, 0
        wants = self._subscription.wants
        while at < len(body):
            try:
                stored = decode_message(body, at)
            except StoreDamaged as error:
                raise ConnectionLost(
                    f"{self.queue}: a pulled record is damaged: {error}"
                ) from error
            at += stored.record_size
            if stored.queue_offset < self._next or not wants(stored.tags):
                continue
            self.buffer.append(received(self.queue, stored))
            size += len(stored.body)
        self._consumer.held(size)
        if self.buffer:
            self._consumer.arrived(self)
