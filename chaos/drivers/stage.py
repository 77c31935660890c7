"""The parts of a live run that one fault may touch, and the operator that brings nodes back.

A fault is one coroutine function: it begins, holds for as long as was planned, ends what it began
(also when it is cancelled) and returns what it *saw* of its effect; "" means it had none, and then
the run proves less than it seems.

    async def pause(stage: Stage) -> str:
        …SIGSTOP…
        await stage.hold()
        …SIGCONT…
        return "stopped for 1.20 s"
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

import psutil

from chaos.drivers.loop_disk import LoopDisks
from chaos.drivers.shim import Shims
from chaos.faults import Target
from chaos.live.arena import Arena
from cluster.local import admin, processes
from cluster.local.launcher import LauncherError

READY_SECONDS_MAX = 30.0
RESTARTS_MAX = 5
PORTS_SECONDS_MAX = 15.0
POLL_SECONDS = 0.02
RECIPE_VARIABLE = "DLEDGER_RECIPE_SECONDS"
#: Note of a course: spans of the run in which a majority was whole, (begin, end); without an end,
#: until its nodes were back.
WHOLE = "majority_whole"


def recipe_seconds() -> float:
    """How long courses wait where their recipe says 30 s: as short as shows an effect in tests,
    the whole time before a release.
    """
    return float(os.environ.get(RECIPE_VARIABLE, "2"))


class Clients(Protocol):
    """The workload's clients, as far as faults reach them."""

    def vanish(self, chance: int) -> str:
        """End one client without a goodbye; another takes its place. Says which."""
        ...

    def pause(self, chance: int) -> Paused:
        """One client begins no operation any more, until it is resumed."""
        ...

    async def read_up(self) -> bool:
        """Wait until one reader has been shown all that stands now; False: not in time."""
        ...


class Paused(Protocol):
    """A client that stands still."""

    @property
    def name(self) -> str:
        """The client as reports name it: "client 2.1" is the third, after one that vanished."""

    def held_back(self) -> int:
        """How many operations were not begun so far."""
        ...

    def resume(self) -> None:
        """Let the process go on, unless another fault has paused it, too."""
        ...


class NotUpAgain(Exception):
    """A node could not be brought back; the run cannot go on honestly."""

    def __init__(self, node: str, words: str) -> None:
        super().__init__(f"{node} did not come back: {words}")
        self.node = node


@dataclass(slots=True)
class Stage:
    """One fault's view of the arena.

    Attributes:
        nodes: whom it hits; most faults hit one.
        seconds: how long it shall last.
        random: of this fault alone.
        now: seconds of the run, as its history has them.
    """

    arena: Arena
    nodes: Sequence[str]
    seconds: float
    random: Random
    target: Target = Target.RANDOM
    disks: LoopDisks | None = None
    shims: Shims | None = None
    clients: Clients | None = None
    now: Callable[[], float] = time.monotonic
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """The first target, for faults of one node."""
        return self.nodes[0]

    @property
    def others(self) -> list[str]:
        """Every node that is not hit."""
        return [name for name in self.arena.cluster.brokers if name not in self.nodes]

    def folder(self, node: str) -> Path:
        """The node's folder: log.txt, node.toml, data."""
        return self.arena.cluster.folder(node)

    async def hold(self) -> None:
        """As long as was planned."""
        await asyncio.sleep(self.seconds)

    @contextlib.contextmanager
    def majority_whole(self, *, until_back: bool = False) -> Iterator[None]:
        """Marks a span in which a majority runs and sees each other, although the fault as a whole
        hits more nodes: silence in that span is judged (live/outages.py), also if the fault fails
        in it.
        """
        span = [round(self.now(), 3), None]
        spans = self.notes.setdefault(WHOLE, [])
        assert isinstance(spans, list)
        spans.append(span)
        try:
            yield
        finally:
            if not until_back:
                span[1] = round(self.now(), 3)

    async def until(self, seen: Callable[[], bool], seconds_max: float) -> bool:
        """Wait until something is seen; False when it is not in time."""
        end = time.monotonic() + seconds_max
        while not seen():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    # -- processes

    def process(self, node: str) -> psutil.Process | None:
        """The node's process, when it runs."""
        return processes.running(self.folder(node))

    async def kill(self, nodes: Sequence[str]) -> None:
        """SIGKILL all of them at once and wait until they are gone."""
        await asyncio.to_thread(processes.kill, [self.folder(node) for node in nodes])

    async def start(self, node: str) -> None:
        """Start a node that ended; does not wait until it is ready.

        A process that ended by itself holds its ports while one of its threads is inside a sync.
        """
        end = time.monotonic() + PORTS_SECONDS_MAX
        while True:  # bounded by the time
            try:
                await self.arena.restart(node)
                return
            except LauncherError as error:
                if time.monotonic() > end:
                    raise NotUpAgain(node, str(error)) from error
                await asyncio.sleep(POLL_SECONDS)

    def running(self, node: str) -> bool:
        """True if the node's process lives, be it paused, failed or not ready yet."""
        return self.arena.cluster.is_running(node)

    async def up_again(self, node: str) -> float:
        """The operator: start a node that ended or failed until it is ready; seconds it took.

        Raises NotUpAgain.
        """
        began = time.monotonic()
        restarts = 0
        while not await self.is_ready(node):
            if time.monotonic() - began > READY_SECONDS_MAX or restarts > RESTARTS_MAX:
                last = processes.log_tail(self.folder(node)).strip().splitlines()[-1:]
                raise NotUpAgain(node, " ".join(last))
            if await self.has_failed(node):
                await self.kill([node])
            if not self.running(node):
                restarts += 1
                await self.start(node)
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic() - began

    async def started_or_refused(self, node: str) -> bool:
        """Wait until a node that was started is ready, or has ended; True when it has ended."""
        end = time.monotonic() + READY_SECONDS_MAX
        while self.running(node) and time.monotonic() < end:
            if await self.is_ready(node):
                return False
            await asyncio.sleep(POLL_SECONDS)
        return not self.running(node)

    async def is_ready(self, node: str) -> bool:
        """Whether a node serves."""
        profile = self.arena.cluster.profile
        return await asyncio.to_thread(admin.is_ready, profile.member(node), profile.admin_token)

    async def leads(self, node: str) -> bool:
        """Whether a node says that it leads."""
        status = (await self.arena.statuses()).get(node)
        return bool(status and status["role"] == "leader")

    async def has_failed(self, node: str) -> bool:
        """Whether a running node says that it stopped working."""
        status = (await self.arena.statuses()).get(node)
        return bool(status and status["failed"])


def last_words(stage: Stage) -> str:
    """The last line that the stage's first node printed, as much as fits a table."""
    return last_line(stage)[:200]


def last_line(stage: Stage) -> str:
    """The same, whole."""
    lines = processes.log_tail(stage.folder(stage.node)).strip().splitlines()
    return lines[-1] if lines else ""


Fault = Callable[[Stage], Awaitable[str]]
