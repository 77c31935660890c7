"""The clients of a run: grants the wishes of `chaos.workloads` and writes down what came of them.

    process ─wish─► one operation ─► ok / fail / info ─► history ─► next wish

A process has one operation at a time. After one whose outcome nobody knows its name retires
(`p0` → `p0_1`), since the operation may still happen at any time; a group retires with its process,
because a commit that arrives late would rightly move its position back.

Processes share a few clients. A client can *vanish*: its connections are aborted, what it was doing
is `info`, and a new client with new names takes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

import cluster
from chaos.history import INFINITY, Kind, Level, Operation, Outcome
from chaos.live.queue_access import QueueAccess
from chaos.workloads import SENDS, Want, Wish, Workload, processes, wishes
from cluster.client import Client, Durability, Producer, ProducerConfig
from cluster.errors import ClusterError
from cluster.errors import Outcome as Certainty

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
        history: finished operations; times in seconds since `began`.
        complaints: what a client met that no outcome describes, as sentences.
        unplaced: values that were acknowledged without a place (chaos/checkers/lost.py).
    """

    def __init__(self, nameserver: str, topic: str, workload: Workload, seed: int) -> None:
        self.history: list[Operation] = []
        self.complaints: list[str] = []
        self.unplaced: list[str] = []
        self.began = time.monotonic()
        self._nameserver, self._topic = nameserver, topic
        self._workload, self._seed = workload, seed
        self._members: list[_Member] = []
        self._ending: list[asyncio.Task[None]] = []
        self._stopping = False
        self._broker = ""

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    async def start(self) -> None:
        """Make the topic, then begin. Raises ClusterError."""
        async with cluster.connect(self._nameserver) as client:
            await client.admin().create_topic(self._topic, self._workload.queues)
            self._broker = next(iter((await client.admin().status()).brokers))
        self.began = time.monotonic()
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
        process = _Process(self, member, name, level)
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

    def access(self, client: Client, name: str, *, any_replica: bool) -> QueueAccess:
        """Queues of this run's topic."""
        random = Random(f"{self._seed}/{name}")
        return QueueAccess(client, self._topic, self._broker, random, any_replica=any_replica)

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def queues(self) -> int:
        return self._workload.queues


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


class _Process:
    """One process: its present name, and where it stands in each queue."""

    def __init__(self, crowd: Crowd, member: _Member, name: str, level: Level) -> None:
        self._crowd, self._base, self._level = crowd, name, level
        self._retired = member.generation * 1000
        self._access = crowd.access(
            member.client, f"{name}/{member.generation}", any_replica=name.startswith("r")
        )
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    @property
    def name(self) -> str:
        return f"{self._base}_{self._retired}" if self._retired else self._base

    async def grant(self, wish: Wish, producer: Producer | None) -> None:
        """One operation; whatever comes of it is written down."""
        deeds: dict[Want, Callable[[Wish], _Deed]] = {
            Want.READ: self._read,
            Want.POLL: self._poll,
            Want.COMMIT: self._commit,
            Want.FETCH: self._fetch,
        }
        deed = self._send(wish, producer) if producer else deeds[wish.want](wish)
        began = self._crowd.now()
        kind, value, log = deed.kind, deed.value, f"q{deed.queue}"
        try:
            await deed.run()
        except ClusterError as error:
            unknown = error.outcome is Certainty.UNKNOWN
            self._ended(kind, value, began, log, Outcome.INFO if unknown else Outcome.FAIL)
            return
        except asyncio.CancelledError:
            self._ended(kind, value, began, log, Outcome.INFO)
            raise
        except ValueError as error:  # what was answered is no answer
            self._crowd.complaints.append(f"{self.name}, {kind.value} of {log}: {error}")
            return
        if deed.log is None:
            return  # there was nothing to see
        if deed.kind is Kind.APPEND and deed.offset < 0:
            self._crowd.unplaced.append(value)
            self._ended(kind, value, began, log, Outcome.INFO)
            return
        self._crowd.history.append(
            Operation(
                self.name,
                deed.kind,
                deed.value,
                began,
                self._crowd.now(),
                Outcome.OK,
                deed.offset,
                deed.log,
                deed.values,
                self._level,
                deed.position,
            )
        )

    def _ended(self, kind: Kind, value: str, began: float, log: str, outcome: Outcome) -> None:
        ended = INFINITY if outcome is Outcome.INFO else self._crowd.now()
        self._crowd.history.append(
            Operation(self.name, kind, value, began, ended, outcome, log=log, level=self._level)
        )
        if outcome is Outcome.INFO and kind in (Kind.APPEND, Kind.COMMIT):
            self._retired += 1
            self._committed.clear()

    # -- deeds

    def _send(self, wish: Wish, producer: Producer) -> _Deed:
        # The client's own rule for keys, so that a failed send is filed under its queue, too.
        queue = crc32(wish.key.encode()) % self._crowd.queues if wish.key else wish.queue
        deed = _Deed(Kind.APPEND, wish.value, queue)

        async def run() -> None:
            receipt = await producer.send(
                self._crowd.topic,
                wish.body,
                key=wish.key or None,
                queue_id=None if wish.key else wish.queue,
            )
            deed.log, deed.offset = f"q{receipt.queue.queue_id}", receipt.queue_offset
            deed.position = receipt.position

        deed.run = run
        return deed

    def _read(self, wish: Wish) -> _Deed:
        deed = _Deed(Kind.READ, "", wish.queue)

        async def run() -> None:
            end = await self._access.end(wish.queue)
            if end:
                messages, _ = await self._access.pull(wish.queue, end - 1)
                if not messages:
                    return
                deed.value = messages[0][1]
            deed.log, deed.offset = f"q{wish.queue}", end

        deed.run = run
        return deed

    def _poll(self, wish: Wish) -> _Deed:
        at = self._next.get(wish.queue, 0)
        deed = _Deed(Kind.POLL, "", wish.queue)

        async def run() -> None:
            messages, following = await self._access.pull(wish.queue, at)
            if messages or following > at:
                self._next[wish.queue] = following
            if messages:
                deed.log, deed.offset, deed.values = f"q{wish.queue}", at, messages
            elif following > at:  # what stood there was deleted meanwhile
                deed.kind, deed.log, deed.offset = Kind.SEEK, f"q{wish.queue}", following

        deed.run = run
        return deed

    def _commit(self, wish: Wish) -> _Deed:
        deed = _Deed(Kind.COMMIT, self.name, wish.queue)

        async def run() -> None:
            end = await self._access.end(wish.queue)
            at = max(self._committed.get(wish.queue, 0), end - 10)
            await self._access.commit(self.name, wish.queue, at)
            self._committed[wish.queue] = at
            deed.log, deed.offset = f"q{wish.queue}", at

        deed.run = run
        return deed

    def _fetch(self, wish: Wish) -> _Deed:
        deed = _Deed(Kind.FETCH, self.name, wish.queue)

        async def run() -> None:
            deed.offset = await self._access.fetch(self.name, wish.queue)
            deed.log = f"q{wish.queue}"

        deed.run = run
        return deed


async def _nothing() -> None: ...


@dataclass(slots=True)
class _Deed:
    """An operation under way; `log` stays None when there was nothing to write down."""

    kind: Kind
    value: str
    queue: int
    log: str | None = None
    offset: int = -1
    values: tuple[tuple[int, str], ...] = ()
    position: int = -1
    run: Callable[[], Awaitable[None]] = _nothing


def acknowledged(history: list[Operation]) -> Iterator[float]:
    """When each append was acknowledged."""
    return (op.completed for op in history if op.kind is Kind.APPEND and op.outcome is Outcome.OK)
