"""The table of delay levels and the due times that stand in the schedule topic's queues.

`1s 5s 10s …`: level n is the n-th word; units s m h d (docs/spec/store.md 7.1, 3.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from commitlog.errors import StoreConfigError

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNKNOWN_LEVEL_DELAY_MS: Final = 1000

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WORD: Final = re.compile(r"(\d{1,9})([smhd])")


@dataclass(frozen=True, slots=True)
class DelayLevels:
    """Delays of levels 1, 2, … in ms."""

    delays_ms: tuple[int, ...]

    @property
    def level_max(self) -> int:
        """The highest delay level; levels count from 1."""
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """The level that is used for a requested one: never above the highest."""
        return min(level, self.level_max)

    def delay_ms(self, level: int) -> int:
        """Delay of a level; one second for a level that the table does not have."""
        if 1 <= level <= self.level_max:
            return self.delays_ms[level - 1]
        return UNKNOWN_LEVEL_DELAY_MS

    def due_ms(self, store_timestamp_ms: int, level: int) -> int:
        """Tags code of a queue entry in the schedule topic."""
        return store_timestamp_ms + self.delay_ms(self.clamp(level))

    @staticmethod
    def queue_id(level: int) -> int:
        """Queue of the schedule topic that holds a level."""
        assert level >= 1, "level 0 means no delay"
        return level - 1


def parse_delay_levels(text: str = DEFAULT_LEVELS) -> DelayLevels:
    """The table written as in `messageDelayLevel`. Raises StoreConfigError."""
    delays: list[int] = []
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise StoreConfigError(
                f"message_delay_level: {word!r} is no delay; write a number and one of s m h d"
            )
        delays.append(int(match[1]) * _UNIT_MS[match[2]])
    if not delays:
        raise StoreConfigError("message_delay_level is empty; give at least one delay, like 1s")
    return DelayLevels(tuple(delays))


DEFAULT_DELAY_LEVELS: Final = parse_delay_levels()
