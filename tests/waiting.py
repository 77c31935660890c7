"""Waiting in tests: for a condition, with a limit scaled by the machine's measured speed.

`FACTOR` is how many times slower than on a quiet machine a test may be here, beside the others that
run at the same time; scripts/layers/machine.py measures it. A limit only costs time when the test
fails, so limits are generous. Timeouts of elections cost time whenever a test kills a leader, so
they are scaled by `SLOWNESS`, which is the same without the other tests. A test never waits for
time to pass: what is about time runs on `virtual_loop.py`, or in the long layers.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

FACTOR = max(1.0, float(os.environ.get("DLEDGER_TEST_FACTOR") or 1.0))
SLOWNESS = max(1.0, float(os.environ.get("DLEDGER_TEST_SLOWNESS") or 1.0))
# Between two looks: a twentieth of the time that was waited already, within these.
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.002, 0.1
# Settings of nodes that are processes: what a busy machine takes from one is no reason to elect
# another, and a busy disk is not a sick one.
RAFT_TIMINGS = {
    "raft.heartbeat_ms": str(round(100 * SLOWNESS)),
    "raft.election_timeout_min_ms": str(round(500 * SLOWNESS)),
    "raft.election_timeout_max_ms": str(round(1000 * SLOWNESS)),
    "raft.resend_timeout_ms": str(round(500 * SLOWNESS)),
    "raft.connection_timeout_ms": str(round(2000 * FACTOR)),
    "raft.disk_stall_ms": str(round(20_000 * FACTOR)),
}


def limit(seconds: float) -> float:
    """That many seconds of a quiet machine, on this one."""
    return seconds * FACTOR


async def eventually(
    condition: Callable[[], T | Awaitable[T]],
    what: str,
    seconds: float = 30.0,
    pause: float = PAUSE_SECONDS_MIN,
) -> T:
    """Wait until `condition`, which may be a coroutine function, is true; its value.

    Args:
        pause: at least so long between two looks, where a look is dear.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:  # until it is true or late
        # Read first: a loop that was stalled for longer than the limit still looks once more.
        waited = loop.time() - begun
        found = condition()
        value: T = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if waited > limit(seconds):
            raise AssertionError(_late(what, seconds, value))
        await asyncio.sleep(max(_pause(waited), pause))


def wait_until(condition: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """Wait until `condition` is true, with this thread; its value."""
    begun = time.monotonic()
    while True:  # until it is true or late
        waited = time.monotonic() - begun
        if value := condition():
            return value
        if waited > limit(seconds):
            raise AssertionError(_late(what, seconds, value))
        time.sleep(_pause(waited))


async def within(awaitable: Awaitable[T], what: str, seconds: float = 30.0) -> T:
    """The result of `awaitable`; it is cancelled when it takes longer than the limit."""
    try:
        async with asyncio.timeout(limit(seconds)) as timer:
            return await awaitable
    except TimeoutError:
        if not timer.expired():
            raise  # the awaitable's own
        raise AssertionError(f"{what}: no result within {limit(seconds):g} s") from None


def _pause(waited: float) -> float:
    return min(max(waited / 20, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)


def _late(what: str, seconds: float, value: object) -> str:
    return f"{what}: not so within {limit(seconds):g} s; seen last: {value!r}"
