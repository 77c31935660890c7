"""Totals of messages when yesterday and today began, as RocketMQ's tools show them (28)."""

from __future__ import annotations

from cluster.core.statistics import BROKER_GET_NUMS, BROKER_PUT_NUMS, Statistics

DAY_MS = 24 * 3600 * 1000


class DailyTotals:
    """Totals as they were when yesterday and today began (28), since this node started."""

    def __init__(self, statistics: Statistics, broker_name: str) -> None:
        self._statistics, self._broker = statistics, broker_name
        self.puts, self.gets = (0, 0), (0, 0)
        self._day = -1

    def look(self, now_ms: int) -> None:
        """To be called now and then; notices that a day has begun."""
        day = now_ms // DAY_MS
        if self._day >= 0 and day > self._day:
            puts = self._statistics.total(BROKER_PUT_NUMS, self._broker)
            gets = self._statistics.total(BROKER_GET_NUMS, self._broker)
            self.puts, self.gets = (self.puts[1], puts), (self.gets[1], gets)
        self._day = day
