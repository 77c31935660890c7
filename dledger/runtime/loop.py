"""Interpreter settings of a process that runs a replica: event loop, garbage collector.

uvloop where it is installed, asyncio's own loop elsewhere: with uvloop a round trip over loopback
costs a fifth, and parts of a frame are written without being joined.

The collector looks for reference cycles after every 700 new objects by default, and each look at a
thousand entries in flight finds none: 15 to 30 % of the time per entry in batches. Our objects are
freed by reference counting; so it looks after 50,000, and never at what was imported.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

#: Objects more than at the last look. More: cycles (exceptions, closed connections) live longer,
#: a few MB at most; less: looks that find nothing.
COLLECT_AFTER = 50_000
#: As malloc.h has it.
_M_ARENA_MAX = -8


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """For `asyncio.Runner(loop_factory=…)`."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def collect_seldom() -> None:
    """Set this process's garbage collector as said above; for programs, not for libraries."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 50)


def share_arena() -> None:
    """Have all threads of this process take memory from one arena of the allocator (glibc).

    Each thread of a host's would get one of its own, which keeps what its longest work has needed.
    Without effect where there is no `mallopt`, or where the environment has set MALLOC_ARENA_MAX.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return memory that this process has freed to the system: the allocator (glibc) keeps it else.

    Takes about a millisecond. Without effect where there is no `malloc_trim`.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on the faster loop, with a seldom collector and one arena of memory."""
    collect_seldom()
    share_arena()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
