"""Producers that record each send's outcome, and a consumer group that counts the messages it gets.

A worker sends one message, waits for its end, writes it down, sends the next: it is one process of
a `chaos.history`. Many workers make many messages in flight. A message's unique name travels as its
key; where it was acknowledged is its position, its byte address in the one log, so the order of
all queues together is judged.

    ok      receipt                          fail   NotDone, also after all retries: certain
    info    OutcomeUnknown after all retries: it may be there

A consumer may see a message again after a rebalance: that is delivery at least once, and counted
apart from `doubled`, which is about the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from chaos.history import INFINITY, Kind, Operation, Outcome
from chaos.live.gaps import Waiting
from cluster.client import Client, ReceivedMessage
from cluster.errors import ClusterError
from cluster.errors import Outcome as Certainty

POLL_SECONDS = 0.05

Body = tuple[str, bytes]  # unique name, body


class HasPosition(Protocol):
    """A receipt, as far as it is used here."""

    @property
    def position(self) -> int:
        """Byte address of the message in the log, or that of its batch."""


class Send(Protocol):
    """`Producer.send`, as far as it is used here."""

    async def __call__(self, topic: str, body: bytes, *, key: str) -> HasPosition: ...


class Load:
    """`workers` producers on one topic.

    Args:
        client: connected.
        topic: where to.
        bodies: makes one worker's bodies.
        workers: messages in flight at most.
        pause: seconds between two messages of a worker, so that the load is steady.
        clock: seconds, one for all.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        workers: int,
        pause: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history: list[Operation] = []
        self.acknowledged_at: list[float] = []
        self.waiting = Waiting()
        self._client, self._topic = client, topic
        self._workers, self._pause, self._clock = workers, pause, clock
        self._stopping = False

    @property
    def sent(self) -> int:
        """Number of sends with a recorded outcome."""
        return len(self.history)

    def stop(self) -> None:
        """No new messages; those under way end as they end."""
        self._stopping = True

    async def run(self, bodies: Callable[[int], Iterable[Body]]) -> None:
        """Send until `stop`, or until the bodies end. `bodies(worker)` gives one worker's."""
        async with self._client.producer() as producer:
            await asyncio.gather(
                *(
                    self._work(number, producer.send, iter(bodies(number)))
                    for number in range(self._workers)
                )
            )

    async def _work(self, number: int, send: Send, bodies: Iterator[Body]) -> None:
        process = f"p{number}"
        # Workers begin one after the other, or all of them would send at the same moments.
        due = self._clock() + self._pause * number / self._workers
        for name, body in bodies:
            await asyncio.sleep(max(0.0, due - self._clock()))
            if self._stopping:
                return
            began = self._clock()
            due = began + self._pause
            self.waiting.sent(began)
            try:
                receipt = await send(self._topic, body, key=name)
            except ClusterError as error:
                self.waiting.failed()
                unknown = error.outcome is Certainty.UNKNOWN
                outcome = Outcome.INFO if unknown else Outcome.FAIL
                ended = INFINITY if unknown else self._clock()
                self._add(Operation(process, Kind.APPEND, name, began, ended, outcome))
            else:
                now = self._clock()
                self.waiting.acknowledged(now)
                self.acknowledged_at.append(now)
                place = receipt.position
                self._add(Operation(process, Kind.APPEND, name, began, now, Outcome.OK, place))

    def _add(self, operation: Operation) -> None:
        self.history.append(operation)


class Drain:
    """A consumer group of `members` that remembers the name of every message it got."""

    def __init__(self, client: Client, topic: str, group: str, *, members: int = 1) -> None:
        self.seen: dict[str, int] = {}
        self._client, self._topic, self._group = client, topic, group
        self._members = members
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def repeats(self) -> int:
        """Deliveries beyond the first of each message."""
        return sum(self.seen.values()) - len(self.seen)

    def start(self) -> None:
        """Begin to consume."""
        self._tasks = [asyncio.ensure_future(self._consume()) for _ in range(self._members)]

    async def stop(self) -> None:
        """Leaves the group. Raises the error of a member that failed."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _consume(self) -> None:
        async with self._client.consumer(self._topic, group=self._group) as consumer:
            async for message in consumer:
                self._note(message)

    def _note(self, message: ReceivedMessage) -> None:
        for name in message.keys:
            self.seen[name] = self.seen.get(name, 0) + 1

    async def has(self, names: Iterable[str], seconds_max: float) -> list[str]:
        """Wait for these messages; returns those that did not come in time."""
        wanted = set(names)
        for _ in range(max(1, int(seconds_max / POLL_SECONDS))):
            if not wanted - self.seen.keys():
                break
            await asyncio.sleep(POLL_SECONDS)
        return sorted(wanted - self.seen.keys())
