"""The delivery time of a message, by its properties (docs/spec/store.md 7.1, 7.2).

    DELAY 1..18                         a level; above the last one: the last one; wins over TIMER_*
    TIMER_DELAY_SEC, TIMER_DELAY_MS     so long after it was stored
    TIMER_DELIVER_MS                    at that time; in the past: at once

TIMER_OUT_MS, floored to a second as RocketMQ's wheel needs it, is written for its tools only: we
deliver at the time that was asked for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from commitlog.delay_levels import DelayLevels
from commitlog.records import property_names as names
from commitlog.records.properties import find_property
from commitlog.records.timer_format import PRECISION_MS

#: RocketMQ's timerMaxDelaySec. More: such messages keep the log from being deleted for longer.
TIMER_DELAY_MS_MAX: Final = 3 * 24 * 3600 * 1000
NO_TIMER: Final = 0

_DELAY = names.DELAY.encode()
_TIMERS: Final = (  # the first one that is there counts, as in RocketMQ
    (names.TIMER_DELAY_SECONDS.encode(), 1000, True),
    (names.TIMER_DELAY_MS.encode(), 1, True),
    (names.TIMER_DELIVER_MS.encode(), 1, False),
)
TIMER_NAMES: Final = tuple(name for name, _, _ in _TIMERS)
_DIGITS_MAX = 15  # of any time in ms until the year 33658, so that sums stay small


class DelayNotReadable(Exception):
    """A delay property has a value that is no whole number; `name` is the property."""

    def __init__(self, name: bytes, value: bytes) -> None:
        self.name = name.decode()
        super().__init__(
            f"the property {self.name} is {value[:40].decode('utf-8', 'replace')!r}; "
            "write a whole number"
        )


class Delay(NamedTuple):
    """`level` 0: none; `due_ms` is then a timer's time, NO_TIMER for none of both."""

    level: int
    due_ms: int


def wanted_delay(properties: bytes, levels: DelayLevels, store_ms: int) -> Delay:
    """The delay that a message stored at `store_ms` asks for. Raises DelayNotReadable."""
    level = _number(properties, _DELAY)
    if level is not None and level > 0:
        return Delay(levels.clamp(level), NO_TIMER)
    return Delay(0, timer_due_ms(properties, store_ms))


def timer_due_ms(properties: bytes, store_ms: int) -> int:
    """Due time of a timer message, NO_TIMER without a timer property. Raises DelayNotReadable."""
    for name, unit_ms, is_relative in _TIMERS:
        number = _number(properties, name)
        if number is not None:
            return number * unit_ms + (store_ms if is_relative else 0)
    return NO_TIMER


def level_due_ms(properties: bytes, levels: DelayLevels, store_ms: int) -> Delay:
    """Level and due time of a record of the schedule topic, also with unreadable properties."""
    try:
        level = _number(properties, _DELAY) or 0
    except DelayNotReadable:
        level = 0
    level = max(min(level, levels.level_max), 0)
    return Delay(level, levels.due_ms(store_ms, level))


def wheel_time_ms(due_ms: int) -> int:
    """TIMER_OUT_MS of a due time: floored, and a whole step earlier for an exact multiple."""
    return (due_ms - 1) // PRECISION_MS * PRECISION_MS


def _number(properties: bytes, name: bytes) -> int | None:
    value = find_property(properties, name)
    if value is None:
        return None
    digits = value[1:] if value[:1] == b"-" else value
    if not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise DelayNotReadable(name, value)
    return int(value)
