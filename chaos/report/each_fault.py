"""Table of every fault of a run: the leaders before and after, and its effect on clients.

t · kind · target · nodes · lasted · leader before → after · acknowledged a second, p99 and
longest silence meanwhile · ready again · what was seen of its effect
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from chaos.history import Kind, Operation, Outcome
from chaos.live.nemesis import REASONS
from chaos.report.figures import quantile

HEAD = (
    *("t (s)", "kind", "target", "nodes", "lasted (s)", "leader"),
    *("acknowledged/s", "p99 (ms)", "silence (s)", "ready again (s)", "seen"),
)
#: A leader that was not seen for so long is no leader at that time: three looks of the observer.
LED_SECONDS_MAX = 1.6


class Acknowledged(NamedTuple):
    """Appends in the order in which they were acknowledged: when, and after how many ms."""

    moments: Sequence[float]
    latencies: Sequence[float]

    @classmethod
    def of(cls, history: Iterable[Operation]) -> Acknowledged:
        """The acknowledged appends of a history."""
        found = sorted(
            (op.completed, (op.completed - op.invoked) * 1e3)
            for op in history
            if op.kind is Kind.APPEND and op.outcome is Outcome.OK
        )
        return cls([moment for moment, _ in found], [latency for _, latency in found])

    def between(self, began: float, ended: float) -> Sequence[float]:
        """Latencies of those from then to then."""
        return self.latencies[bisect_left(self.moments, began) : bisect_right(self.moments, ended)]

    def silence(self, began: float, ended: float) -> float:
        """Longest pause between two that touches this time; NaN when there are no two."""
        first = max(0, bisect_left(self.moments, began) - 1)
        near = self.moments[first : bisect_right(self.moments, ended) + 1]
        return max((b - a for a, b in pairwise(near)), default=math.nan)


class Leaders:
    """The leader at each time, as the observer saw it; of two at once the one of the higher
    term.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        led = [row for row in rows if row["role"] == "leader"]
        self._moments = [float(row["time"]) for row in led]
        self._found = [(int(row["term"]), str(row["node"])) for row in led]

    def at(self, moment: float) -> str:
        """Returns the leader's name and term, or the word for "none" if no leader was seen for a
        while before."""
        first = bisect_left(self._moments, moment - LED_SECONDS_MAX)
        near = self._found[first : bisect_right(self._moments, moment)]
        if not near:
            return "nobody"
        term, node = max(near)
        return f"{node} (term {term})"


def fault_rows(
    faults: Iterable[Mapping[str, Any]],
    history: Iterable[Operation],
    rows: Iterable[Mapping[str, Any]],
) -> tuple[list[Sequence[object]], list[str]]:
    """Cells below `HEAD`, and a style class for each row. Faults that never began are left out."""
    acknowledged, leaders = Acknowledged.of(history), Leaders(rows)
    cells: list[Sequence[object]] = []
    kinds: list[str] = []
    for row in faults:
        if row["began"] is None or row["ended"] is None:
            continue
        began, ended = float(row["began"]), float(row["ended"])
        back = ended + float(row["recovery_seconds"])
        before, after = leaders.at(began), leaders.at(back + LED_SECONDS_MAX)
        latencies = acknowledged.between(began, ended)
        cells.append(
            (
                f"{began:.1f}",
                row["kind"],
                row["target"],
                ", ".join(map(str, row["nodes"])),
                f"{ended - began:.2f}",
                before if before == after else f"{before} → {after}",
                f"{len(latencies) / max(ended - began, 1e-3):.0f}",
                _number(quantile(latencies, 0.99), 0),
                _number(acknowledged.silence(began, ended), 2),
                f"{float(row['recovery_seconds']):.2f}",
                row["seen"] or row["error"] or _why_not(row),
            )
        )
        kinds.append("" if row["took_effect"] else "unknown")
    return cells, kinds


def _why_not(row: Mapping[str, Any]) -> str:
    said = next((f": {row[name]}" for name in REASONS if row.get(name)), "")
    return f"no effect that was seen{said}"


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"
