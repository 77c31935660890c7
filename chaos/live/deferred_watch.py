"""Reads delayed and transactional messages until all have arrived, and answers check-backs of
brokers.

One client of its own, which never vanishes: it polls each queue of both topics from its beginning,
asking any replica, and is one more producer of the transactional group, so that halves whose
producers died are decided. It goes on after the load has stopped, until all has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

import cluster
from chaos.history import Level
from chaos.live.client_process import ClientProcess, Topic, Written
from chaos.live.deferred_process import TRANSACTION_GROUP, Decisions
from chaos.live.queue_access import QueueAccess
from chaos.workloads import Want, Wish, Workload
from cluster.client import Client, ClientConfig
from cluster.errors import ClusterError

DEFERRED_QUEUES = 2
DELAYED, HALVES = "delayed", "halves"
#: A leader knows the producers that have told it of themselves: soon after an election.
CONFIG = ClientConfig(heartbeat_period=2.0)
POLL_SECONDS = 0.05
OPEN_PAUSE_SECONDS = 0.5


def deferred_topics(topic: str) -> dict[str, Topic]:
    """Returns the topics for delayed and half messages that go with `topic`; their queues are
    called d0, d1 and x0, x1 in a history."""
    return {
        DELAYED: Topic(f"{topic}-delayed", DEFERRED_QUEUES, "d", deferred=True),
        HALVES: Topic(f"{topic}-halves", DEFERRED_QUEUES, "x", deferred=True),
    }


def log_of(topic: str) -> dict[str, str]:
    """Topic → the letter of its queues in a history and in the final logs."""
    return {topic: "q"} | {one.name: one.log for one in deferred_topics(topic).values()}


class DeferredWatch:
    """A reader of each queue, and the group's other producer, from `start` to `stop`.

    Attributes:
        decisions: of the transactional group.
    """

    def __init__(self, nameserver: str, topics: Mapping[str, Topic], written: Written) -> None:
        self._nameserver, self._topics, self._written = nameserver, topics, written
        self.decisions = Decisions(written, topics[HALVES])
        self._client: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, workload: Workload, broker: str, seed: int) -> None:
        """Begins to read the topics that the workload sends to, `workload.asks` polls a second, and
        to answer check-backs."""
        self._client = client = cluster.connect(self._nameserver, CONFIG)
        wanted = {DELAYED: workload.delayed, HALVES: workload.transactional}
        for name in [name for name, count in wanted.items() if count]:
            topic = self._topics[name]
            for queue in range(topic.queues):
                reading = self._read(client, topic, queue, broker, seed, workload.asks)
                self._tasks.append(asyncio.ensure_future(reading))
        if workload.transactional:
            self._tasks.append(asyncio.ensure_future(self._answer(client)))

    async def _read(
        self, client: Client, topic: Topic, queue: int, broker: str, seed: int, asks: float
    ) -> None:
        """Polls one queue until it is cancelled. Each queue has a reader of its own, so that one
        unanswered poll does not delay the others."""
        name = f"w{topic.log}{queue}"
        random = Random(f"{seed}/{name}")
        access = QueueAccess(client, topic.name, broker, random, any_replica=True)
        process = ClientProcess(self._written, name, 0, Level.ON_DISK, topic, access)
        while True:  # until `stop`
            await process.grant(Wish(Want.POLL, queue), None)
            await asyncio.sleep(topic.queues / asks)

    async def _answer(self, client: Client) -> None:
        check = self.decisions.check
        async with client.transaction_producer(TRANSACTION_GROUP, check) as producer:
            while True:  # until it is known to the brokers
                try:
                    await producer.open_topic(self._topics[HALVES].name)
                except ClusterError:
                    await asyncio.sleep(OPEN_PAUSE_SECONDS)
                else:
                    break
            await asyncio.Event().wait()  # the client answers; until `stop`

    async def arrivals(self, seconds_max: float) -> None:
        """Return when readers were shown all that must come to them, or in `seconds_max`."""
        for _ in range(int(seconds_max / POLL_SECONDS)):
            if not self._written.awaited - self._written.arrived:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Stops reading and answering. Raises the error of a reader that failed."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        for result in ended:
            if isinstance(result, Exception):
                raise result
