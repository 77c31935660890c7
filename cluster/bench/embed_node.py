"""One node of `dledger bench embed`: a replica that does the commands of its parent's lines.

kind "log"       ReplicatedLog.append, in the leader
kind "machine"   ReplicatedNode.propose with a counter's result, in any node
kind "state N"   the same with N MiB of state (states_node.py); commands at a pace, too
kind "dict"      ReplicatedDict.set, by as many tasks as are in flight, in any node
"""

from __future__ import annotations

import asyncio
import base64
import cProfile
import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from cluster.bench.disk import percentile
from cluster.bench.states_node import LargeState, Stateless, at_a_pace
from dledger import (
    DledgerError,
    Entry,
    RaftConfig,
    ReplicatedLog,
    ReplicatedNode,
    ReplicatedStateMachine,
)
from dledger.objects.dictionary import ReplicatedDict
from dledger.runtime.loop import run

#: Different random bodies: enough that nothing on the way could profit from repetition.
_BODIES = 4096


class Embedded(Protocol):
    """The embedded object, of any kind."""

    async def leader(self, seconds_max: float) -> str:
        """Name of the node that leads and takes entries. Raises TimeoutError."""
        ...

    async def keep_in_flight(
        self, window: int, bodies: Sequence[bytes], seconds: float
    ) -> tuple[list[float], float]:
        """Keep `window` entries in flight; latency of each, and how long it all took, in seconds.

        Raises DledgerError.
        """
        ...


async def in_one_task(
    send: Callable[[bytes], asyncio.Future[Any]],
    window: int,
    bodies: Sequence[bytes],
    seconds: float,
) -> tuple[list[float], float]:
    """As `Embedded.keep_in_flight`, by one task, with a call that answers by a future.

    Entries are answered in the order of their calls, so the oldest one is waited for, and all that
    were answered with it are replaced in one go.
    """
    pending: deque[tuple[float, asyncio.Future[Any]]] = deque()
    latencies: list[float] = []
    clock = time.perf_counter
    begun = now = clock()
    end, number = begun + seconds, 0
    while now < end or pending:
        while now < end and len(pending) < window:
            pending.append((now, send(bodies[number % _BODIES])))
            number += 1
        await pending[0][1]
        now = clock()
        while pending and pending[0][1].done():
            started, answer = pending.popleft()
            answer.result()  # raises what went wrong
            latencies.append(now - started)
    return latencies, clock() - begun


async def in_tasks(
    send: Callable[[int, bytes], Awaitable[Any]],
    window: int,
    bodies: Sequence[bytes],
    seconds: float,
) -> tuple[list[float], float]:
    """As `Embedded.keep_in_flight`, by `window` tasks with one entry each, as people write it.

    `send` is given a number below 4096, too.
    """
    latencies: list[float] = []
    clock = time.perf_counter
    begun = clock()
    numbers = itertools.count()

    async def one() -> None:
        while (started := clock()) < begun + seconds:
            number = next(numbers) % _BODIES
            await send(number, bodies[number])
            latencies.append(clock() - started)

    await asyncio.gather(*(one() for _ in range(window)))
    return latencies, clock() - begun


class Log:
    """`ReplicatedLog.append` in the leader."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log

    async def leader(self, seconds_max: float) -> str:
        """See `Embedded`."""
        async with asyncio.timeout(seconds_max):
            while True:  # until the timeout
                name = await self._log.wait_for_leader()
                if name != self._log.config.node_id:
                    return name
                try:
                    await self._log.append(b"ready")
                except DledgerError:
                    await asyncio.sleep(0.01)
                else:
                    return name

    async def keep_in_flight(
        self, window: int, bodies: Sequence[bytes], seconds: float
    ) -> tuple[list[float], float]:
        """See `Embedded`."""
        return await in_one_task(self._log.append, window, bodies, seconds)


class Counter(ReplicatedStateMachine[bytes, int]):
    """Counts commands; the result of each is their number so far."""

    def __init__(self) -> None:
        self.applied = 0

    def apply(self, entry: Entry[bytes]) -> int:
        """Count it."""
        self.applied += 1
        return self.applied

    def encode(self, command: bytes) -> bytes:
        """The command itself."""
        return command

    def decode(self, data: bytes) -> bytes:
        """The command itself."""
        return data


class Machine:
    """`ReplicatedNode.propose` of `Counter`, in any node, with results."""

    def __init__(self, node: ReplicatedNode[bytes, int]) -> None:
        self._node = node

    async def leader(self, seconds_max: float) -> str:
        """See `Embedded`."""
        return await _leader_of(self._node, lambda: self._node.propose(b"ready"), seconds_max)

    async def keep_in_flight(
        self, window: int, bodies: Sequence[bytes], seconds: float
    ) -> tuple[list[float], float]:
        """See `Embedded`."""
        return await in_one_task(self._node.propose, window, bodies, seconds)


class WithState(Machine):
    """The same, of a machine with a large state."""

    def __init__(self, node: ReplicatedNode[bytes, int], state: LargeState) -> None:
        super().__init__(node)
        self.state = state

    async def paced(self, command: dict[str, Any]) -> dict[str, Any]:
        """Answer of a "paced" line."""
        bodies = _bodies(command["body_size"])
        send = self._node.propose
        return figures(*await at_a_pace(send, command["rate"], bodies, command["seconds"]))


class Dictionary:
    """`ReplicatedDict.set` in any node; values are text."""

    def __init__(self, values: ReplicatedDict[str]) -> None:
        self._values = values

    async def leader(self, seconds_max: float) -> str:
        """See `Embedded`."""
        values = self._values
        return await _leader_of(values.node, lambda: values.set("ready", "yes"), seconds_max)

    async def keep_in_flight(
        self, window: int, bodies: Sequence[bytes], seconds: float
    ) -> tuple[list[float], float]:
        """See `Embedded`."""
        texts = [as_text(body) for body in bodies]

        def send(number: int, _: bytes) -> Awaitable[Any]:
            return self._values.set(f"key-{number}", texts[number])

        return await in_tasks(send, window, bodies, seconds)


def as_text(body: bytes) -> str:
    """As many random characters as `body` has bytes, 6 random bits each."""
    return base64.b64encode(body)[: len(body)].decode()


async def _leader_of(
    node: ReplicatedNode[Any, Any], propose: Callable[[], Awaitable[Any]], seconds_max: float
) -> str:
    async with asyncio.timeout(seconds_max):
        await propose()
        while (name := node.leader) is None:  # it was led a moment ago
            await propose()
        return name


def _bodies(size: int) -> list[bytes]:
    block = os.urandom(size * _BODIES)
    return [block[at : at + size] for at in range(0, len(block), size)]


async def load(embedded: Embedded, command: dict[str, Any]) -> dict[str, Any]:
    """Answer of a "load" line."""
    bodies = _bodies(command["body_size"])
    latencies, seconds = await embedded.keep_in_flight(
        command["window"], bodies, command["seconds"]
    )
    return figures(latencies, seconds)


def figures(latencies: list[float], seconds: float) -> dict[str, Any]:
    """Answer of a "load" line, of the latency of each entry and how long all of them took."""
    latencies.sort()
    return {
        "entries": len(latencies),
        "entries_per_second": len(latencies) / seconds,
        "p50_ms": percentile(latencies, 0.5) * 1e3,
        "p99_ms": percentile(latencies, 0.99) * 1e3,
    }


async def serve(name: str, embedded: Embedded) -> None:
    """Lines from the parent until it says stop or goes away."""
    loop = asyncio.get_running_loop()
    answer: dict[str, Any] = {"started": name}
    while True:  # until "stop" or the end of the input
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        line = await loop.run_in_executor(None, sys.stdin.readline)
        command = json.loads(line or '{"do": "stop"}')
        try:
            match command["do"]:
                case "leader":
                    answer = {"leader": await embedded.leader(command["seconds"])}
                case "load":
                    answer = await load(embedded, command)
                case "paced":
                    assert isinstance(embedded, WithState)
                    answer = await embedded.paced(command)
                case "states":
                    assert isinstance(embedded, WithState)
                    answer = {"written": embedded.state.written}
                case "cpu":
                    answer = {"cpu_seconds": time.process_time()}
                case _:
                    return
        except (DledgerError, TimeoutError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}


async def node(config: dict[str, Any], kind: str) -> None:
    """Open the node of `config`, formatted if it is new, and serve the parent's lines until it
    stops.
    """
    peers = {name: (host, port) for name, (host, port) in config.pop("peers").items()}
    settings = RaftConfig(peers=peers, **config)
    create = not (Path(settings.data_dir) / "identity").exists()
    match kind:
        case "log":
            if create:
                ReplicatedLog.format(settings)
            async with ReplicatedLog(settings) as log:
                await serve(settings.node_id, Log(log))
        case "machine":
            async with ReplicatedNode(settings, Counter(), create=create) as made:
                await serve(settings.node_id, Machine(made))
        case "dict":
            async with ReplicatedDict[str](settings, create=create) as values:
                await serve(settings.node_id, Dictionary(values))
        case _:
            mib = int(kind.removeprefix("state "))
            machine = LargeState(mib) if mib else Stateless(0)
            async with ReplicatedNode(settings, machine, create=create) as made:
                await serve(settings.node_id, WithState(made, machine))


def main() -> None:
    """Run one node; the first argument is JSON: `config`, `kind`, and `profile`, a path or null."""
    given = json.loads(sys.argv[1])
    profile = cProfile.Profile() if given["profile"] else None
    if profile is not None:
        profile.enable()
    run(node(given["config"], given["kind"]))
    if profile is not None:
        profile.disable()
        profile.dump_stats(f"{given['profile']}.{given['config']['node_id']}")


if __name__ == "__main__":
    main()
