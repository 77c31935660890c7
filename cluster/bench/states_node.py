"""The machine of `dledger bench states`, and commands at a pace."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from dledger import Entry, ReplicatedStateMachine

#: So often the commands that are due are proposed.
TICK_SECONDS = 0.005
PART_BYTES = 1 << 20


class LargeState(ReplicatedStateMachine[bytes, int]):
    """`mib` parts of 1 MiB that stay as they are, and a count of commands."""

    def __init__(self, mib: int) -> None:
        self.applied = self.written = 0
        self.parts = [os.urandom(PART_BYTES) for _ in range(mib)]

    def apply(self, entry: Entry[bytes]) -> int:
        """Count it."""
        self.applied += 1
        return self.applied

    def snapshot(self) -> Callable[[], Sequence[bytes]]:
        """The parts as they are now: a copy of the list, not of the bytes."""
        parts = [self.applied.to_bytes(8, "big"), *self.parts]
        self.written += 1
        return lambda: parts

    def restore(self, state: bytes) -> None:
        """Take another's."""
        self.applied = int.from_bytes(state[:8], "big")
        self.parts = [state[at : at + PART_BYTES] for at in range(8, len(state), PART_BYTES)]

    def encode(self, command: bytes) -> bytes:
        """The command itself."""
        return command

    def decode(self, data: bytes) -> bytes:
        """The command itself."""
        return data


class Stateless(LargeState):
    """The same without states on disk."""

    snapshot = ReplicatedStateMachine.snapshot  # type: ignore[assignment]


async def at_a_pace(
    send: Callable[[bytes], asyncio.Future[Any]],
    rate: float,
    bodies: Sequence[bytes],
    seconds: float,
) -> tuple[list[float], float]:
    """Propose `rate` commands a second; the latency of each from when it was due, and the time."""
    clock = time.perf_counter
    latencies: list[float] = []
    waiting: set[asyncio.Future[Any]] = set()
    begun = clock()
    number = 0

    def ended(due: float, future: asyncio.Future[Any]) -> None:
        future.result()  # raises what went wrong
        latencies.append(clock() - due)
        waiting.discard(future)

    while (now := clock() - begun) < seconds:
        while number < rate * now:
            due = begun + number / rate
            future = send(bodies[number % len(bodies)])
            waiting.add(future)
            future.add_done_callback(lambda future, due=due: ended(due, future))  # type: ignore[misc]
            number += 1
        await asyncio.sleep(TICK_SECONDS)
    if waiting:
        await asyncio.wait(waiting)
    return latencies, clock() - begun
