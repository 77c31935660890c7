"""Limits how many messages wait for their receipts, and gives free places in order.

    count + woken ≤ count_max          a task that finds no free place, or others waiting, queues
    bytes ≤ bytes_max                  near the limit one task is let in at a time

Tasks get places in the order in which they asked, so one task's sends and those of tasks started
after it keep their order. All tasks that fit are let in at once, so that their messages form
batches.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from cluster.errors import QueueFull


class InFlightLimiter:
    """Counts messages in flight. `take` is called once per message, `give` once per answer.

    Attributes:
        count: messages that wait for their receipts.
        size: bytes of their bodies.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self.count = 0
        self.size = 0
        self._count_max, self._bytes_max = count_max, bytes_max
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._woken = 0
        self._idle: list[asyncio.Future[None]] = []

    @property
    def is_full(self) -> bool:
        """True if a task must wait before it sends."""
        return (
            self.count >= self._count_max
            or self.size > self._bytes_max
            or self._woken > 0
            or bool(self._waiting)
        )

    def take(self, size: int) -> None:
        """Count a message of `size` bytes that is being sent."""
        self.count += 1
        self.size += size

    def give(self, count: int, size: int) -> None:
        """Discount `count` answered messages of `size` bytes together, and wake tasks that wait."""
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
        """Wait for a free place.

        The caller then calls `take` before it awaits anything else, and `let_in` afterwards.

        Raises:
            QueueFull: no place became free in `seconds_max` seconds.
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
                f"{self.count} messages wait for their receipts and no place became free in "
                f"{seconds_max:g} s"
            ) from None
        finally:
            if waiter in self._waiting:
                del self._waiting[waiter]
            else:
                self._woken -= 1

    def let_in(self) -> None:
        """Let the next tasks in, once all tasks that were let in before have called `take`."""
        if self._waiting and not self._woken:
            self._wake()

    async def wait_until_empty(self) -> None:
        """Wait until no message is in flight and no task waits to send."""
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
            if waiter.done():  # cancelled, and still to leave the queue: `wait` discounts it
                continue
            waiter.set_result(None)
