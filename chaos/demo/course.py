"""The demo's course: load, two faults, and the measurements between them. No printing here.

    0 s ── load ─────────────────────────────────────────────────────────► stop, verify
             │ SIGKILL the leader   │ restart   │ cut the new one off │ heal
             4–6 s                  +4 s        +4–6 s               +5 s

The seed chooses the moments and the messages. What each replica holds is read from its own files
after everything has stopped.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cluster
from chaos.checkers.verdict import Verdict, Word, judge
from chaos.history import Kind, Outcome
from chaos.live.arena import Arena
from chaos.live.load import Body, Drain, Load
from chaos.live.replicas import read_all
from cluster.local import plan

TOPIC = "demo"
GROUP = "demo-readers"
QUEUES = 4
WORKERS = 32
RATE_MAX = 2000  # messages/s: real traffic, and still quick to verify on two cores
LOAD_SECONDS = 22.0
DELIVERY_SECONDS_MAX = 15.0
# Small files: three nodes allocate them, and the log rolls over a file while things break.
SETTINGS = {"raft.data_file_size": str(16 << 20), "raft.index_file_size": str(4 << 20)}


class View(Protocol):
    """Receives the demo's events, to show them."""

    def happened(self, text: str) -> None:
        """An event of the demo, as one line of text."""
        ...

    async def show(self, arena: Arena, load: Load) -> None:
        """A picture of the cluster at this moment."""
        ...

    def watching(self, arena: Arena, load: Load) -> AbstractAsyncContextManager[None]:
        """A picture that stays current, for as long as the context lasts."""
        ...


@dataclass(slots=True)
class Options:
    """Options of the demo. `root`: the cluster's folder; `rate`: messages a second, drawn by the
    seed, as long as faults go on; `lines`: bodies to send instead, at a rate of their own.
    """

    root: Path
    seed: int
    rate: int = 1000
    lines: list[bytes] | None = None
    hosts: tuple[str, ...] = ()  # free ones by default


@dataclass(slots=True)
class Gap:
    """The silence after a fault: how long messages waited without an acknowledgement, and the
    leader since.

    `seconds` is None when no message was under way.
    """

    fault: str
    seconds: float | None
    leader: str

    def __str__(self) -> str:
        if self.seconds is None:
            return "no message was waiting for an acknowledgement"
        return f"no acknowledgement for {self.seconds:.2f} s"


@dataclass(slots=True)
class Result:
    """The demo's findings; `passed` is the verdict."""

    sent: int
    verdict: Verdict
    undelivered: list[str]
    repeats: int
    gaps: list[Gap]
    replicas: dict[str, int]
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """True if the verdict is "valid" and every acknowledged message was delivered."""
        return self.verdict.word is Word.VALID and not self.undelivered

    def summary(self) -> dict[str, object]:
        """One object with the names that every judging command uses."""
        gaps = sorted(gap.seconds * 1e3 for gap in self.gaps if gap.seconds is not None)
        return {
            "sent": self.sent,
            **self.verdict.counts(),
            "undelivered": len(self.undelivered),
            "repeated_deliveries": self.repeats,
            "gap_p50_ms": round(gaps[len(gaps) // 2], 1) if gaps else 0.0,
            "gap_p99_ms": round(gaps[-1], 1) if gaps else 0.0,
            "replicas": self.replicas,
            "seconds": round(self.seconds, 1),
            "passed": self.passed,
        }


async def run(options: Options, view: View) -> Result:
    """Run the whole demo in `options.root`, which must not hold a cluster."""
    began = time.monotonic()
    chance = random.Random(options.seed)
    hosts = options.hosts or plan.scratch_hosts(3)
    arena = Arena(options.root / "cluster", hosts=hosts, settings=SETTINGS)
    async with arena:
        view.happened(f"3 nodes ready; {await arena.leader()} leads")
        async with cluster.connect(arena.cluster.nameserver) as client:
            await client.admin().create_topic(TOPIC, QUEUES)
            load = Load(client, TOPIC, workers=WORKERS, pause=_pause(options))
            drain = Drain(client, TOPIC, GROUP, members=2)
            gaps = await _under_load(arena, load, drain, options, chance, view)
            acked = [op.value for op in load.history if op.outcome is Outcome.OK]
            view.happened("load stopped; waiting for the consumer group and for every replica")
            undelivered = await drain.has(acked, DELIVERY_SECONDS_MAX)
            await drain.stop()
        await arena.settled()
        await view.show(arena, load)
    view.happened("everything stopped; reading every replica's own files")
    logs = await asyncio.to_thread(read_all, arena.cluster, TOPIC)
    _save_history(options.root, load)
    verdict = judge(load.history, logs)
    sizes = {name: len(log) for name, log in logs.items()}
    result = Result(load.sent, verdict, undelivered, drain.repeats, gaps, sizes)
    result.seconds = time.monotonic() - began
    return result


async def _under_load(
    arena: Arena, load: Load, drain: Drain, options: Options, chance: random.Random, view: View
) -> list[Gap]:
    drain.start()
    sending = asyncio.ensure_future(load.run(lambda worker: _bodies(options, worker)))
    try:
        async with view.watching(arena, load):
            gaps = await _break(arena, load, chance, view)
        if options.lines is None:
            load.stop()
        await sending
        return gaps
    finally:
        load.stop()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _break(arena: Arena, load: Load, chance: random.Random, view: View) -> list[Gap]:
    """The two faults, each followed by its end."""
    await asyncio.sleep(chance.uniform(4, 6))
    killed = await arena.leader()
    moment = time.monotonic()
    await arena.kill(killed)
    view.happened(f"SIGKILL {killed}, the leader")
    first = await _next_leader(arena, load, killed, moment, "kill", view)
    await view.show(arena, load)
    await asyncio.sleep(max(0.0, moment + 4 - time.monotonic()))
    await arena.restart(killed)
    view.happened(f"start {killed} again, on its files")

    await asyncio.sleep(chance.uniform(4, 6))
    cut_off = await arena.leader()
    moment = time.monotonic()
    arena.mesh.isolate(cut_off)
    view.happened(f"cut {cut_off}, the leader, off from everybody")
    second = await _next_leader(arena, load, cut_off, moment, "partition", view)
    await view.show(arena, load)
    await asyncio.sleep(max(0.0, moment + 5 - time.monotonic()))
    arena.mesh.heal()
    view.happened(f"heal: {cut_off} is back in the network")
    await asyncio.sleep(3)
    return [first, second]


async def _next_leader(
    arena: Arena, load: Load, old: str, moment: float, fault: str, view: View
) -> Gap:
    """Wait for another leader and for the first acknowledgement under it."""
    leader = await arena.leader(other_than=old)
    status = (await arena.statuses())[leader]
    term = status["term"] if status else "?"
    end = time.monotonic() + 10
    while load.acknowledged_at and load.acknowledged_at[-1] <= moment + 0.05:
        if time.monotonic() > end or load.waiting.nobody:
            break
        await asyncio.sleep(0.02)
    await asyncio.sleep(1.0)  # the gap ends when acknowledgements flow, not at the first one
    gap = Gap(fault, load.waiting.longest(moment, time.monotonic()), leader)
    view.happened(f"{leader} leads term {term}; {gap}")
    return gap


def _pause(options: Options) -> float:
    """Seconds between two messages of one worker."""
    rate: float = options.rate
    if options.lines is not None:
        rate = min(RATE_MAX, len(options.lines) / LOAD_SECONDS)  # few lines: some at each fault
    return WORKERS / rate


def _bodies(options: Options, worker: int) -> Iterator[Body]:
    if options.lines is not None:
        for number in range(worker, len(options.lines), WORKERS):
            yield f"line-{number}", options.lines[number]
        return
    chance = random.Random(f"{options.seed}/{worker}")
    number = 0
    while True:  # ended by Load.stop
        yield f"{worker}-{number}", f"message {number} of {worker}: {chance.random()}".encode()
        number += 1


def _save_history(root: Path, load: Load) -> None:
    with (root / "history.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(op.to_json() + "\n" for op in load.history if op.kind is Kind.APPEND)
