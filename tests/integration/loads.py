"""Load that judges while somebody changes the cluster: our clients, and the official Java ones.

OwnLoad     one send at a time to each queue, numbered; its answer must name the next offset, so
            nothing is lost, doubled or reordered; a group of ours consumes all of it
StockLoad   the official producer and push consumer, where scripts/interop has built them
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.client import Client
from cluster.errors import ClusterError
from tests.interop.harness import toolchains
from tests.interop.harness.running import Program, started
from tests.waiting import eventually, limit

QUEUES = 4
STOCK_VERSION = "5.3.3"
STOCK_SENDS_PER_SECOND = 40
STARTS_MAX = 4


@dataclass(slots=True)
class OwnLoad:
    """`counts`: acknowledged, by queue; `failed`: sends that were not."""

    client: Client
    topic: str
    counts: list[int] = field(default_factory=lambda: [0] * QUEUES)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    received: list[set[int]] = field(default_factory=lambda: [set() for _ in range(QUEUES)])
    over: bool = False
    is_answered: bool = False

    @property
    def acknowledged(self) -> int:
        return sum(self.counts)

    async def send_all(self) -> None:
        """Until `over`."""
        async with self.client.producer() as producer:
            await asyncio.gather(*(self._send(producer, queue) for queue in range(QUEUES)))
        self.is_answered = True

    async def _send(self, producer: Any, queue: int) -> None:
        while not self.over:
            number = self.counts[queue]
            try:
                receipt = await producer.send(self.topic, b"%d" % number, queue_id=queue)
            except ClusterError as error:
                self.failed.append(str(error))
                self.over = True  # what follows would only be counted from a wrong number
                return
            if receipt.queue_offset != number:
                self.wrong.append(f"queue {queue}: {number} is at {receipt.queue_offset}")
            self.counts[queue] += 1

    async def consume(self) -> None:
        """Until all that was acknowledged has come, and no more is sent."""
        async with self.client.consumer(self.topic, group=f"G_{self.topic}") as consumer:
            while not (self.is_answered and self._is_received()):
                for message in await consumer.receive_many(256, 0.5):
                    number, queue = int(message.body), message.queue.queue_id
                    if message.queue_offset != number:
                        self.wrong.append(f"queue {queue}: {number} read at {message.queue_offset}")
                    self.received[queue].add(number)
                    consumer.ack(message)

    def _is_received(self) -> bool:
        return self.acknowledged == sum(map(len, self.received))

    def judge(self) -> None:
        assert (self.failed, self.wrong) == ([], [])
        assert [set(range(count)) for count in self.counts] == self.received


@dataclass(slots=True)
class StockLoad:
    """A running Java program; `facts`: what it said at its end."""

    program: Program
    facts: dict[str, Any] = field(default_factory=dict)

    async def acknowledged(self) -> int:
        return int((await asyncio.to_thread(self.program.ask, "mark"))["acked"])

    async def stop(self) -> None:
        """End it; all that it has sent is answered and consumed."""
        self.facts = await asyncio.to_thread(self.program.ask, "stop")

    def judge(self) -> None:
        facts = self.facts
        assert facts["failures"] == [], facts["failures"][:3]
        assert facts["acked"] == facts["sent"]
        wanted = {one["id"] for one in facts["acks"]}
        assert wanted <= set(facts["received_ids"]), "lost"
        assert facts["back"] == [], "its consumer went back"


@dataclass(slots=True)
class Load:
    """Ours and the stock one, at the same time."""

    own: OwnLoad
    stock: StockLoad | None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self) -> None:
        self.tasks = [asyncio.create_task(one) for one in (self.own.send_all(), self.own.consume())]

    async def more(self, whence: str) -> None:
        """Wait until each has some more sends acknowledged."""
        own, stock = self.own, self.stock
        wanted = own.acknowledged + 100

        def is_reached() -> bool:
            return own.failed != [] or own.acknowledged >= wanted

        await eventually(is_reached, f"own sends {whence}", 60)
        assert own.failed == []
        if stock is not None:
            least = await stock.acknowledged() + 50

            async def reached() -> bool:
                return await stock.acknowledged() >= least

            await eventually(reached, f"stock sends {whence}", 60, pause=0.1)

    async def cancel(self) -> None:
        """Nothing more of ours, whether it has ended or not."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def end(self) -> tuple[int, int]:
        """Stop and judge: how many were acknowledged, ours and stock; none failed."""
        self.own.over = True
        await asyncio.gather(*self.tasks)
        self.own.judge()
        if self.stock is None:
            return self.own.acknowledged, 0
        await self.stock.stop()
        self.stock.judge()
        return self.own.acknowledged, int(self.stock.facts["acked"])


@contextmanager
def stock_load(
    nameserver: str, topic: str, home: Path, options: Sequence[str] = ()
) -> Iterator[StockLoad | None]:
    """None where there is no Java, or the client was not built."""
    try:
        java = toolchains.java(STOCK_VERSION)
    except toolchains.Missing:
        yield None
        return
    # Its own 3 s, of a quiet machine.
    settings = [f"-Duser.home={home}", f"-Dsend.timeout={round(limit(3) * 1000)}", *options]
    command = [*java, *settings, "interop.Failover", nameserver, topic]
    for number in range(STARTS_MAX):
        folder = home / str(number)
        with started([*command, str(STOCK_SENDS_PER_SECOND)], folder) as program:
            if number == STARTS_MAX - 1 or _is_up(program):
                yield StockLoad(program)
                return


def _is_up(program: Program) -> bool:
    """Its own limits end a start where the machine is too busy for it; nothing was sent then."""
    try:
        program.ask("mark")
    except AssertionError:
        return False
    return True
