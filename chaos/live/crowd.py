"""The clients of a run and the processes on them: the wishes of `chaos.workloads`, in their time.

    crowd ─┬─ client 0 ─┬─ p0 ─► wishes, one operation at a time     (client_process.py)
           ├─ client 1  ├─ p3
           └─ client 2  └─ …

Processes share a few clients. A client can *vanish*: its connections are aborted, what it was doing
is `info`, and a new client with new names takes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import cluster
from chaos.history import Kind, Level, Operation, Outcome
from chaos.live.client_process import ClientProcess, Topic, Written
from chaos.live.queue_access import QueueAccess
from chaos.workloads import SENDS, Want, Workload, processes, wishes
from cluster.client import Client, Durability, Producer, ProducerConfig

CLIENTS = 3
STOP_SECONDS_MAX = 30.0  # a send that waits for a leader ends within its delivery timeout of 15 s


@dataclass(slots=True)
class _Member:
    """One client and the processes that live on it."""

    client: Client
    names: dict[str, Want]
    generation: int
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Crowd:
    """Every process of a workload on one topic.

    Attributes:
        written: by all of them.
    """

    def __init__(self, nameserver: str, topic: str, workload: Workload, seed: int) -> None:
        self.written = Written()
        self._nameserver, self._topic = nameserver, Topic(topic, workload.queues)
        self._workload, self._seed = workload, seed
        self._members: list[_Member] = []
        self._ending: list[asyncio.Task[None]] = []
        self._stopping = False
        self._broker = ""

    def now(self) -> float:
        """Seconds since the run began."""
        return self.written.now()

    async def start(self) -> None:
        """Make the topic, then begin. Raises ClusterError."""
        async with cluster.connect(self._nameserver) as client:
            await client.admin().create_topic(*self._topic)
            self._broker = next(iter((await client.admin().status()).brokers))
        self.written.began = time.monotonic()
        names = processes(self._workload)
        for number in range(CLIENTS):
            share = {name: names[name] for name in list(names)[number::CLIENTS]}
            self._members.append(self._join(share, 0))

    def _join(self, names: dict[str, Want], generation: int) -> _Member:
        member = _Member(cluster.connect(self._nameserver), names, generation)
        member.tasks = [
            asyncio.ensure_future(self._live(member, name, want)) for name, want in names.items()
        ]
        return member

    def vanish(self, chance: int) -> str:
        """One client ends without a goodbye; another one takes its place."""
        at = chance % len(self._members)
        old = self._members[at]
        for task in old.tasks:
            task.cancel()
        self._ending.append(asyncio.ensure_future(_abort(old)))
        self._members[at] = self._join(old.names, old.generation + 1)
        return f"client {at}.{old.generation}"

    async def stop(self) -> None:
        """No new operations; those under way end as they end. Raises what a process died of."""
        self._stopping = True
        tasks = [task for member in self._members for task in member.tasks]
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX)
        for task in late:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._ending)
        for member in self._members:
            await member.client.close()
        for result in ended:
            if isinstance(result, Exception):
                raise result

    # -- one process

    async def _live(self, member: _Member, name: str, want: Want) -> None:
        level = Level.IN_MEMORY if want is Want.SEND_IN_MEMORY else Level.ON_DISK
        process = self._process(member, name, level)
        list_of_wishes = wishes(self._workload, process.name, want, self._seed)
        sends = want in SENDS
        pause = self._workload.pause if sends else 1 / self._workload.asks
        due = time.monotonic() + pause * Random(name).random()
        async with _producer(member.client, level if sends else None) as producer:
            for wish in list_of_wishes:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if self._stopping:
                    return
                due = time.monotonic() + pause
                await process.grant(wish, producer)

    def _process(self, member: _Member, name: str, level: Level) -> ClientProcess:
        random = Random(f"{self._seed}/{name}/{member.generation}")
        any_replica = name.startswith("r")
        access = QueueAccess(
            member.client, self._topic.name, self._broker, random, any_replica=any_replica
        )
        return ClientProcess(self.written, name, member.generation, level, self._topic, access)


@asynccontextmanager
async def _producer(client: Client, level: Level | None) -> AsyncIterator[Producer | None]:
    if level is None:
        yield None
        return
    producer = client.producer(config=ProducerConfig(durability=Durability(level.value)))
    try:
        yield producer
    finally:
        # Not `close`, which waits for what is under way: a vanished client says nothing more.
        producer.abandon()


async def _abort(member: _Member) -> None:
    await asyncio.gather(*member.tasks, return_exceptions=True)
    await member.client.close()


def acknowledged(history: list[Operation]) -> Iterator[float]:
    """When each append was acknowledged."""
    return (op.completed for op in history if op.kind is Kind.APPEND and op.outcome is Outcome.OK)
