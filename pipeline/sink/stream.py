"""Requests to one queue, in order, repeated until the broker has them (R8).

    waiting ──► out (at most WINDOW unanswered) ──► answered, oldest first
       ▲──────────── a failure: all of `out`, in order, to the leader of now

Every item carries its producer's number, so a repeat is harmless: the broker stores what it lacks
and answers the rest like the first time. Late answers to an earlier attempt are ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

from cluster.client import Client, Durability
from cluster.client.connection.connection import Connection
from cluster.client.routing.retry_rules import Action, rule_for
from cluster.errors import ClusterError, ConnectionLost, SendTimeout
from cluster.protocol.codes import exception_for
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.send_own import SendEncoder, SendResult

WINDOW = 4  # requests of one queue unanswered at once; more only wait in the broker
STILL_SECONDS_MAX = 60.0  # a process that did nothing for longer was suspended
PRODUCER_GROUP = "DLEDGER_SPARK"


class _StoodStill(SendTimeout):
    """The process stood still, so that only a new attempt can learn the outcome of its rows."""

    retriable = False


class _Answer:
    """The answer to one request, as a future: the queue offset of its first item."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def answered(self, answer: Frame | SendResult) -> None:
        if self.future.done():
            return
        if isinstance(answer, Frame) and answer.code != 0:
            self.failed(exception_for(answer.code, answer.remark, answer.ext))
        else:
            self.future.set_result(
                answer.queue_offset
                if isinstance(answer, SendResult)
                else int(answer.ext.get("queueOffset", -1))
            )

    def failed(self, error: ClusterError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # it may be one that nobody waits for any more


class Request(NamedTuple):
    """One request: `count` items in `body`, made by producers at `born_ms`."""

    body: bytes
    count: int  # type: ignore[assignment]  # hides a tuple method, like EntryId
    born_ms: int


class Stream:
    """The requests of one task to one queue.

    Args:
        seconds_max: how long a request may fail before the task does.
        on_disk: acknowledged when a majority has it on disk, whatever the topic says.

    `offset` is the queue offset of the latest answer, -1 when the broker does not tell.
    """

    def __init__(
        self, client: Client, queue: MessageQueue, seconds_max: float, *, on_disk: bool = False
    ) -> None:
        self.queue = queue
        self._client, self._seconds_max = client, seconds_max
        self._waiting: deque[Request] = deque()
        self._out: deque[tuple[Request, _Answer]] = deque()
        self._encoder = SendEncoder(
            producer_group=PRODUCER_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            broker_name=queue.broker_name,
            is_batch=True,
            durability=Durability.MAJORITY_ON_DISK.value if on_disk else None,
        )
        self._work: asyncio.Task[None] | None = None
        self.bytes_left = 0
        self.acked = 0
        self.offset = -1
        self._awake_at = time.time()

    def add(self, request: Request) -> None:
        """Send it after all that was added before."""
        if not self.bytes_left:
            self._awake_at = time.time()
        self._waiting.append(request)
        self.bytes_left += len(request.body)
        if self._work is None or (self._work.done() and not self._work.exception()):
            self._work = asyncio.ensure_future(self._deliver())

    @property
    def work(self) -> asyncio.Task[None] | None:
        """Ends when all that was added is stored. Raises ClusterError when it cannot be."""
        return self._work

    def close(self) -> None:
        """Cancels the remaining requests."""
        if self._work is not None:
            self._work.cancel()

    async def _deliver(self) -> None:
        failing_since: float | None = None
        look = False
        while self._waiting or self._out:
            before = self.acked
            try:
                await self._flow(look)
                failing_since = None
            except ClusterError as error:
                now = time.monotonic()
                if failing_since is None or self.acked > before:
                    failing_since = now
                await self._pause(error, now - failing_since)
                look = rule_for(error).action is Action.FIND_LEADER

    async def _flow(self, look: bool) -> None:
        """Sends until no request is left, or until one fails."""
        connection = await self._client.leaders.connection(
            self.queue.broker_name, self.queue.topic, look=look
        )
        self._waiting.extendleft(request for request, _ in reversed(self._out))
        self._out.clear()
        while self._waiting or self._out:
            self._check_awake()
            while self._waiting and len(self._out) < WINDOW:
                self._post(self._waiting.popleft(), connection)
            request, answer = self._out[0]
            try:
                async with asyncio.timeout(self._client.config.request_timeout):
                    self.offset = await answer.future
            except TimeoutError:
                self._client.leaders.suspect(self.queue.broker_name, connection.address)
                self._client.pool.drop(connection.address)
                raise ConnectionLost(f"{connection.address} did not answer in time") from None
            self._out.popleft()
            self.acked += request.count
            self.bytes_left -= len(request.body)

    def _check_awake(self) -> None:
        """Raises SendTimeout if this process stood still for long: others may have published its
        batch, and the broker may have forgotten the numbers, so its unsent rows must not be sent
        any more."""
        now = time.time()
        still = now - self._awake_at
        self._awake_at = now
        if still > max(STILL_SECONDS_MAX, 3 * self._client.config.request_timeout):
            raise _StoodStill(
                f"this process stood still for {still:.0f} s; start the query again, which finds "
                "out what was published"
            )

    def _post(self, request: Request, connection: Connection) -> None:
        answer = _Answer()
        self._out.append((request, answer))
        connection.post_send(self._encoder, b"", request.body, request.born_ms, answer)

    async def _pause(self, error: ClusterError, failing_seconds: float) -> None:
        """Pauses before the next attempt. Raises errors that must not be retried, and
        SendTimeout.
        """
        rule = rule_for(error)
        if rule.action is Action.GIVE_UP:
            raise error
        if failing_seconds > self._seconds_max:
            raise SendTimeout(
                f"{self.queue.broker_name} took nothing for {self._seconds_max:g} s: {error}; "
                "restart the query, which sends the rows again under the same numbers"
            ) from error
        await asyncio.sleep(max(rule.pause, self._client.config.retry_pause))
