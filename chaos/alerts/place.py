"""The cluster that one scene has for itself: arena, disks, shims, clients, a steady load."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cluster
from chaos.drivers.loop_disk import LoopDisks
from chaos.drivers.shim import Shims
from chaos.live import node_hooks
from chaos.live.arena import Arena
from chaos.live.load import Body, Drain, Load
from cluster.client import Client, ClientConfig

TOPIC = "steady"
GROUP = "steady-readers"
QUEUES = 4
WORKERS = 8
BODY = b"x" * 200
ANSWER_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Place:
    """The parts that a scene may touch.

    Attributes:
        faster: the rules' minutes are so many times as short.
        folder: of the scene; its cluster is in `folder/cluster`.
    """

    arena: Arena
    folder: Path
    faster: float = 1.0
    disks: LoopDisks | None = None
    shims: Shims | None = None

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes."""
        return self.arena.cluster.brokers

    def client(self, config: ClientConfig | None = None) -> Client:
        """A client of the cluster; use it with `async with`."""
        return cluster.connect(self.arena.cluster.nameserver, config)

    async def follower(self) -> str:
        """A node that does not lead."""
        leader = await self.arena.leader()
        return next(node for node in self.nodes if node != leader)

    async def answers(self, node: str) -> None:
        """Wait until the node's admin port answers. Raises OSError."""
        end = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < end:
            if (await self.arena.statuses()).get(node):
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise OSError(f"{node} does not answer at its admin port; look at its log")

    async def ask(self, node: str, **what: object) -> str:
        """Leave a request for the node (node_hooks.py) and return its answer. Raises OSError."""
        folder = self.arena.cluster.folder(node)
        number = node_hooks.ask(folder, **what)
        end = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < end:
            said = node_hooks.answered(folder, number)
            if said is not None:
                node_hooks.forget(folder)
                return said
            await asyncio.sleep(LOOK_SECONDS)
        raise OSError(f"{node} did not answer {what} in {ANSWER_SECONDS_MAX:g} s")


@contextlib.asynccontextmanager
async def steady(
    client: Client, rate: float, *, judged: Callable[[Load, Drain], None]
) -> AsyncIterator[None]:
    """`rate` messages a second to one topic and a group that reads them, while it lasts.

    `judged` is called at the end, when both have stopped.
    """
    await client.admin().create_topic(TOPIC, QUEUES)
    load = Load(client, TOPIC, workers=WORKERS, pause=WORKERS / rate)
    drain = Drain(client, TOPIC, GROUP)
    drain.start()
    sending = asyncio.ensure_future(load.run(_bodies))
    try:
        yield
    finally:
        load.stop()
        await asyncio.gather(sending, return_exceptions=True)
        names = [op.value for op in load.history if op.outcome.value == "ok"]
        with contextlib.suppress(Exception):
            await drain.has(names, ANSWER_SECONDS_MAX)
        with contextlib.suppress(Exception):
            await drain.stop()
        judged(load, drain)


def _bodies(worker: int) -> Iterator[Body]:
    number = 0
    while True:  # until the load is stopped
        number += 1
        yield f"{worker}-{number}", BODY
