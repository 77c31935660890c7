"""The clients of a run and the processes on them: the wishes of `chaos.workloads`, in their time.

    clients ─┬─ client 0 ─┬─ p0 ─► wishes, one operation at a time     (client_process.py)
             ├─ client 1  ├─ p3
             └─ client 2  └─ …

Processes share a few clients. A client can *vanish*: its connections are aborted, what it was doing
is `info`, and a new client with new names takes over. One that is *paused* begins no operation.
Processes whose messages wait in a broker are those of `deferred_process.py`; what comes of them is
watched apart (`deferred_watch.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import cluster
from chaos.history import Kind, Level, Operation, Outcome
from chaos.live.client_process import ClientProcess, Topic, Written
from chaos.live.deferred_process import (
    TRANSACTION_GROUP,
    DeferredProcess,
    DelaySender,
    HalfSender,
    Recorder,
)
from chaos.live.deferred_watch import (
    CONFIG,
    DEFERRED_QUEUES,
    DELAYED,
    HALVES,
    DeferredWatch,
    deferred_topics,
)
from chaos.live.queue_access import QueueAccess
from chaos.live.tail_reader import TailReader
from chaos.workloads import DEFERRED_SENDS, SENDS, Want, Wish, Workload, processes, wishes
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
    pauses: int = 0
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    held_back: int = 0  # operations that were not begun while it was paused
    waiting: int = 0  # of these, now

    async def until_awake(self) -> None:
        if self.awake.is_set():
            return
        self.held_back += 1
        self.waiting += 1
        try:
            await self.awake.wait()
        finally:
            self.waiting -= 1


class PausedMember:
    """`chaos.drivers.stage.Paused`; several may hold one client."""

    def __init__(self, name: str, member: _Member) -> None:
        self.name, self._member = name, member
        self._before = member.held_back - member.waiting
        member.pauses += 1
        member.awake.clear()

    def held_back(self) -> int:
        """Operations that did not begin in this pause; those that waited before it count, too."""
        return self._member.held_back - self._before

    def resume(self) -> None:
        """Ends this pause; the client goes on when no other pause of it is left. Call it once."""
        self._member.pauses -= 1
        if not self._member.pauses:
            self._member.awake.set()


class ClientProcesses:
    """All client processes of a workload: on one topic, and on two more for delayed and
    transactional messages.

    Attributes:
        written: by all of them.
    """

    def __init__(self, nameserver: str, topic: str, workload: Workload, seed: int) -> None:
        self.written = Written()
        self._nameserver, self._topic = nameserver, Topic(topic, workload.queues)
        self._workload, self._seed = workload, seed
        self._tail = TailReader(nameserver, self._topic, self.written)
        self._members: list[_Member] = []
        self._ending: list[asyncio.Task[None]] = []
        self._stopping = False
        self._broker = ""
        self._deferred = deferred_topics(topic)
        self._watch = DeferredWatch(nameserver, self._deferred, self.written)

    def now(self) -> float:
        """Seconds since the run began."""
        return self.written.now()

    async def start(self) -> None:
        """Make the topics, then begin. Raises ClusterError."""
        async with cluster.connect(self._nameserver) as client:
            for topic in (self._topic, *(self._deferred.values() if self.has_deferred else ())):
                await client.admin().create_topic(topic.name, topic.queues)
            self._broker = next(iter((await client.admin().status()).brokers))
        self.written.began = time.monotonic()
        await self._tail.start()
        names = processes(self._workload)
        for number in range(CLIENTS):
            share = {name: names[name] for name in list(names)[number::CLIENTS]}
            self._members.append(self._join(share, 0))
        if self.has_deferred:
            self._watch.start(self._workload, self._broker, self._seed)

    @property
    def has_deferred(self) -> bool:
        """True if the workload sends delayed or transactional messages."""
        return bool(self._workload.delayed or self._workload.transactional)

    def _join(self, names: dict[str, Want], generation: int) -> _Member:
        member = _Member(cluster.connect(self._nameserver, CONFIG), names, generation)
        member.awake.set()
        member.tasks = [
            asyncio.ensure_future(
                self._live_deferred(member, name, want)
                if want in DEFERRED_SENDS
                else self._live(member, name, want)
            )
            for name, want in names.items()
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

    def pause(self, chance: int) -> PausedMember:
        """One client begins no operation until it is resumed; its connections stay."""
        at = chance % len(self._members)
        member = self._members[at]
        return PausedMember(f"client {at}.{member.generation}", member)

    async def read_up(self) -> bool:
        """Wait until one reader has been shown all that stands now; False: not in time."""
        return await self._tail.read_up()

    async def stop(self) -> None:
        """Starts no new operations and waits for those under way, at most STOP_SECONDS_MAX. Raises
        the error of a process that failed."""
        self._stopping = True
        tasks = [task for member in self._members for task in member.tasks]
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX)
        for task in late:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._ending)
        await self._tail.stop()
        for member in self._members:
            await member.client.close()
        for result in ended:
            if isinstance(result, Exception):
                raise result

    async def arrivals(self, seconds_max: float) -> float:
        """After `stop`: wait until readers were shown all that has to come, at most so long.

        Returns seconds of the run until which was waited. Raises what a reader died of.
        """
        await self._watch.arrivals(seconds_max)
        until = self.now()
        await self._watch.stop()
        return until

    # -- one process

    async def _live(self, member: _Member, name: str, want: Want) -> None:
        level = Level.IN_MEMORY if want is Want.SEND_IN_MEMORY else Level.ON_DISK
        process = self._process(member, name, level)
        list_of_wishes = wishes(self._workload, process.name, want, self._seed)
        sends = want in SENDS
        pause = self._workload.pause if sends else 1 / self._workload.asks
        due = time.monotonic() + pause * Random(name).random()
        sends |= want is Want.SEND_AND_READ
        async with _producer(member.client, level if sends else None) as producer:
            async for wish in self._in_time(member, list_of_wishes, due, pause):
                await process.grant(wish, producer if wish.want in SENDS else None)

    async def _in_time(
        self, member: _Member, of_process: Iterator[Wish], due: float, pause: float
    ) -> AsyncIterator[Wish]:
        """Each wish not before its time, `pause` seconds apart, until the clients stop."""
        for wish in of_process:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await member.until_awake()
            if self._stopping:
                return
            due = time.monotonic() + pause
            yield wish

    async def _live_deferred(self, member: _Member, name: str, want: Want) -> None:
        name = f"{name}_{member.generation * 1000}" if member.generation else name
        pause = 1 / self._workload.asks
        due = time.monotonic() + pause * Random(name).random()
        workload = replace(self._workload, queues=DEFERRED_QUEUES)
        of_process = wishes(workload, name, want, self._seed)
        async with self._deferred_process(member.client, name, want) as process:
            async for wish in self._in_time(member, of_process, due, pause):
                await process.grant(wish)

    @asynccontextmanager
    async def _deferred_process(
        self, client: Client, name: str, want: Want
    ) -> AsyncIterator[DeferredProcess]:
        topic = self._deferred[DELAYED if want is Want.SEND_DELAYED else HALVES]
        recorder = Recorder(self.written, name, topic)
        if want is Want.SEND_DELAYED:
            async with _producer(client, Level.ON_DISK) as producer:
                assert producer is not None
                yield DelaySender(recorder, producer)
            return
        decisions = self._watch.decisions
        halves = client.transaction_producer(TRANSACTION_GROUP, decisions.check)
        try:
            yield HalfSender(recorder, halves, decisions)
        finally:
            halves.abandon()  # a vanished client says nothing more, nor does one that stops

    def _process(self, member: _Member, name: str, level: Level) -> ClientProcess:
        random = Random(f"{self._seed}/{name}/{member.generation}")
        access = QueueAccess(
            member.client,
            self._topic.name,
            self._broker,
            random,
            any_replica=name.startswith("r"),
            ends_of_any=name.startswith("s"),
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
