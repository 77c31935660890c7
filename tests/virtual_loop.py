"""Event loops for tests, whose time does not depend on how busy the machine is.

    SteadyLoop    time stands still while the loop does not run: what a busy machine takes from it
                  is seen by no timer, so that no election and no time limit comes of it
    VirtualLoop   time jumps to the next timer when nothing else is left to do, and connections are
                  made in memory: minutes pass at once, and in the same order every time

Every async test runs on the first (conftest.py); one that is marked `virtual_time` on the second.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any

from tests.memory_net import MemoryNet

# What one turn of the loop may take of its own time; more is the machine's.
TURN_SECONDS_MAX = 0.002


class _Selector(selectors.DefaultSelector):
    """Tells its loop how long a turn took and how long it waited for the next."""

    loop: SteadyLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.loop.turn_ended()
        return self.loop.wait(super().select, timeout)


Select = Callable[[float | None], list[tuple[selectors.SelectorKey, int]]]


class SteadyLoop(asyncio.SelectorEventLoop):
    """Counts the time that it waits for, and of the rest what a quiet machine would take.

    Within one turn time all but stands still: who looks at the clock until it is late, and awaits
    nothing meanwhile, looks for ever.
    """

    def __init__(self) -> None:
        self._now = self._looked_at = time.monotonic()
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._now + min(time.monotonic() - self._looked_at, TURN_SECONDS_MAX)

    def turn_ended(self) -> None:
        """Everything that was ready has run."""
        self._now = self.time()
        self._looked_at = time.monotonic()

    def work(self, seconds: float) -> None:
        """What runs now takes so long of the loop's time, for a test of slow code."""
        self._now += seconds

    def wait(self, select: Select, timeout: float | None) -> list[Any]:
        """Wait for what comes or the next timer; a wait that ends late took its time limit."""
        found = select(timeout)
        waited = time.monotonic() - self._looked_at
        self._now += waited if timeout is None else min(waited, max(timeout, 0.0))
        self._looked_at = time.monotonic()
        return found


class VirtualLoop(SteadyLoop):
    """One thread and no sockets; threads that the loop starts itself are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        self._threads = 0
        self.net = MemoryNet(self)

    def time(self) -> float:
        return self._now

    def turn_ended(self) -> None:
        """Work takes no time."""

    def wait(self, select: Select, timeout: float | None) -> list[Any]:
        if found := select(0):
            return found
        if self._threads or timeout is None:
            return select(timeout)
        self._now += max(timeout, 0.0)
        return []

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Any, *args: Any
    ) -> Any:
        future = super().run_in_executor(executor, function, *args)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self._threads -= 1

    async def create_server(  # type: ignore[override]
        self, factory: Callable[[], Any], host: str, port: int, **_: Any
    ) -> Any:
        return self.net.listen(factory, host, port)

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], Any], host: str, port: int, **how: Any
    ) -> Any:
        assert not how.get("ssl"), "TLS needs real sockets: leave the mark `virtual_time` out"
        local_host = (how.get("local_addr") or ("127.0.0.1", 0))[0]
        return await self.net.connect(factory, host, port, local_host)


class LoopClock:
    """The clocks of in-process nodes (`dledger.runtime.clock.Clock`), which go with their loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._apart = time.time() - self._loop.time()

    def now(self) -> float:
        return self._loop.time()

    def time_ms(self) -> int:
        return int((self._loop.time() + self._apart) * 1000)

    def put_forward(self, ms: int) -> None:
        """The wall clock of all of them, at once."""
        self._apart += ms / 1000


def virtual_loop() -> VirtualLoop:
    """The loop of a test that is marked `virtual_time`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
