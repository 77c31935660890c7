"""How much went through lately: sums over the last minute, hour and day (315).

Source: docs/spec/remoting.md 2.8.

    add("TOPIC_PUT_NUMS", "T", 5, now) ─► three rings of buckets: 10 s × 6, 10 min × 6, 1 h × 24

A window's sum covers its whole buckets, the one being filled included, so it lags by less than one
bucket. Pure: `now` is seconds of any monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"

ITEMS_MAX = 100_000  # (name, key) pairs; the oldest is forgotten. Each costs about 1 KiB

_DAY_MS = 24 * 3600 * 1000
_WINDOWS = ((10.0, 6), (600.0, 6), (3600.0, 24))
"""Bucket in seconds and buckets per window: minute, hour, day."""


class Sum(NamedTuple):
    """Figures of one window: the sum, the rate per second, and the average per occasion."""

    sum: int
    tps: float
    average: float

    def to_json(self) -> dict[str, float]:
        """RocketMQ's BrokerStatsItem."""
        return {"avgpt": self.average, "sum": self.sum, "tps": self.tps}


class _Window:
    """A ring of buckets; `at` is the number of the newest one since the clock's beginning."""

    __slots__ = ("at", "bucket_seconds", "sums", "times")

    def __init__(self, bucket_seconds: float, count: int, now: float) -> None:
        self.bucket_seconds = bucket_seconds
        self.at = int(now / bucket_seconds)
        self.sums, self.times = [0] * count, [0] * count

    def move(self, now: float) -> None:
        """Empty the buckets that time has passed over."""
        at, count = int(now / self.bucket_seconds), len(self.sums)
        for number in range(max(self.at + 1, at - count + 1), at + 1):
            self.sums[number % count] = self.times[number % count] = 0
        self.at = max(self.at, at)

    def add(self, value: int, now: float) -> None:
        if now >= (self.at + 1) * self.bucket_seconds:
            self.move(now)
        place = self.at % len(self.sums)
        self.sums[place] += value
        self.times[place] += 1

    def sum(self, now: float) -> Sum:
        self.move(now)
        total, times = sum(self.sums), sum(self.times)
        seconds = self.bucket_seconds * len(self.sums)
        return Sum(total, total / seconds, total / times if times else 0.0)


class _Item:
    __slots__ = ("total", "windows")

    def __init__(self, now: float) -> None:
        self.windows = [_Window(seconds, count, now) for seconds, count in _WINDOWS]
        self.total = 0

    def add(self, value: int, now: float) -> None:
        self.total += value
        for window in self.windows:
            window.add(value, now)


class Recent(NamedTuple):
    """The recent figures of one key."""

    minute: Sum
    hour: Sum
    day: Sum


_NOTHING = Recent(*[Sum(0, 0.0, 0.0)] * 3)


class Statistics:
    """All counters of one broker, by name and key (a topic, or topic@group).

    Attributes:
        dead_letters: group → messages that it gave up, since the broker began to count.
    """

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], _Item] = {}
        self.dead_letters: dict[str, int] = {}

    def add(self, name: str, key: str, value: int, now: float) -> None:
        """Count `value` on one occasion. A new key beyond ITEMS_MAX takes the place of the
        oldest.
        """
        item = self._items.get((name, key))
        if item is None:
            if len(self._items) >= ITEMS_MAX:
                del self._items[next(iter(self._items))]
            item = self._items[name, key] = _Item(now)
        item.add(value, now)

    def recent(self, name: str, key: str, now: float) -> Recent | None:
        """Sums of the three windows; None when the key was never counted."""
        item = self._items.get((name, key))
        return Recent(*[window.sum(now) for window in item.windows]) if item else None

    def tps(self, name: str, key: str, now: float) -> float:
        """Per second, over the last minute."""
        return (self.recent(name, key, now) or _NOTHING).minute.tps

    def total(self, name: str, key: str) -> int:
        """Since the broker began to count."""
        item = self._items.get((name, key))
        return item.total if item is not None else 0

    def forget(self, keys: Iterable[str]) -> None:
        """A topic or group was deleted."""
        gone = set(keys)
        for place in [place for place in self._items if gone & {place[1], *place[1].split("@")}]:
            del self._items[place]


class DailyTotals:
    """Totals as they were when yesterday and today began (28), since this node started."""

    def __init__(self, statistics: Statistics, broker_name: str) -> None:
        self._statistics, self._broker = statistics, broker_name
        self.puts, self.gets = (0, 0), (0, 0)
        self._day = -1

    def look(self, now_ms: int) -> None:
        """To be called now and then; notices that a day has begun."""
        day = now_ms // _DAY_MS
        if self._day >= 0 and day > self._day:
            puts = self._statistics.total(BROKER_PUT_NUMS, self._broker)
            gets = self._statistics.total(BROKER_GET_NUMS, self._broker)
            self.puts, self.gets = (self.puts[1], puts), (self.gets[1], gets)
        self._day = day
