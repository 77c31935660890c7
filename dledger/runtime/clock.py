"""Time and chance as ports: the real ones here, virtual ones in the simulator and in tests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """`now`: seconds that never run backward; `time_ms`: milliseconds since 1970."""

    def now(self) -> float: ...

    def time_ms(self) -> int: ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.monotonic)

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000


def seeded_jitter(seed: int | None) -> Callable[[], float]:
    """Numbers in [0, 1); the same seed gives the same ones. None: seeded by the machine."""
    return random.Random(seed).random
