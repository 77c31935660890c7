"""Computes the earliest time at which a queue can have had a certain length.

place      0      1      2      3
sent at    1.0    4.0    2.0    5.0       since(3) = 4.0: three messages stand there only when
                                          the last of them to be sent had been sent
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from chaos.checkers.anomaly import Log
from chaos.history import Kind, Operation


class Sent:
    """The final log and when its messages were sent; `end`: the first place that is not filled."""

    def __init__(self, history: Iterable[Operation], log: Log) -> None:
        """Values of `log` that no append of `history` sent may have stood there at any time."""
        began = {op.value: op.invoked for op in history if op.kind is Kind.APPEND}
        self.end = log[-1][0] + 1 if log else 0
        self._places = [place for place, _ in log]
        times = (began.get(value, float("-inf")) for _, value in log)
        self._since = [float("-inf"), *accumulate(times, max)]

    def since(self, end: int) -> float:
        """The earliest time at which every place below `end` can have been filled. O(log n)."""
        return self._since[bisect_left(self._places, end)]
