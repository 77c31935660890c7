"""How many messages may wait for their receipts, and in which order senders get room.

    count + woken ≤ count_max          whoever finds no room, or others waiting, queues up
    bytes ≤ bytes_max                  near the limit one sender is let in at a time

Senders get room in the order in which they asked, so one task's sends and those of tasks started
after it keep their order. All that fits is let in at once: what is sent together forms batches.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from cluster.errors import QueueFull


class Room:
    """Counts what is in flight. `take` and `give` are called once per message or batch."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self.count = 0
        self.size = 0
        self._count_max, self._bytes_max = count_max, bytes_max
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._woken = 0
        self._idle: list[asyncio.Future[None]] = []

    @property
    def is_full(self) -> bool:
        """Must a sender wait?"""
        return (
            self.count >= self._count_max
            or self.size > self._bytes_max
            or self._woken > 0
            or bool(self._waiting)
        )

    def take(self, size: int) -> None:
        """A message of that many bytes is on its way."""
        self.count += 1
        self.size += size

    def give(self, count: int, size: int) -> None:
        """So many messages were answered."""
        self.count -= count
        self.size -= size
        if self._waiting:
            self._wake()
        if self._idle and not self.count:
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()

    async def wait(self, seconds_max: float) -> None:
        """Wait for room; then call `take` before anything else is awaited, and `let_in` after.

        Raises:
            QueueFull: there was none in time.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        if not self._woken:
            self._wake()
        try:
            async with asyncio.timeout(seconds_max):
                await waiter
        except TimeoutError:
            raise QueueFull(
                f"{self.count} messages wait for their receipts and no room came in "
                f"{seconds_max:g} s"
            ) from None
        finally:
            if waiter in self._waiting:
                del self._waiting[waiter]
            else:
                self._woken -= 1

    def let_in(self) -> None:
        """Let the next ones in, if those that were let in before are all inside."""
        if self._waiting and not self._woken:
            self._wake()

    async def wait_until_empty(self) -> None:
        """Wait until nothing is in flight and nobody waits to send."""
        while self.count or self._waiting or self._woken:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def _wake(self) -> None:
        free = self._count_max - self.count - self._woken
        if 2 * self.size > self._bytes_max:
            free = 0 if self.size > self._bytes_max or self._woken else min(free, 1)
        waiting = self._waiting
        while free > 0 and waiting:
            waiter, _ = waiting.popitem(last=False)
            self._woken += 1
            free -= 1
            if waiter.done():  # cancelled: it has not left the queue yet, `wait` counts it out
                continue
            waiter.set_result(None)
