"""Time and chance as ports: the real ones here, virtual ones in the simulator and in tests."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Protocol

from dledger.config import RaftConfig

#: Linux's; where there is none, the monotonic clock of other systems counts that itself, or
#: nothing does.
_COUNTS_SUSPENSION: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


#: One for all nodes of a process, as it has 2.5 KB; a child process draws other numbers.
_OF_THE_MACHINE = random.Random()
os.register_at_fork(after_in_child=_OF_THE_MACHINE.seed)


class Clock(Protocol):
    """`now`: seconds that never run backward; `time_ms`: milliseconds since 1970."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def time_ms(self) -> int:
        """The time of day: ms since 1970."""
        ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.monotonic)

    def time_ms(self) -> int:
        """The machine's time of day: ms since 1970."""
        return time.time_ns() // 1_000_000


class BootClock(SystemClock):
    """A SystemClock that counts suspended time, too: leases are measured with it."""

    def now(self) -> float:
        """Seconds since boot, those of suspension included."""
        return time.clock_gettime(_COUNTS_SUSPENSION)


def clock_for(config: RaftConfig) -> Clock:
    """The machine's clock that the rules of this replica need."""
    return BootClock() if config.lease_reads else SystemClock()


def seeded_jitter(seed: int | None) -> Callable[[], float]:
    """Numbers in [0, 1); the same seed gives the same ones. None: seeded by the machine."""
    return _OF_THE_MACHINE.random if seed is None else random.Random(seed).random
