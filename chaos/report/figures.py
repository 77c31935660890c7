"""Numbers of a run that charts and tables show. Pure functions; times in seconds of the run."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from chaos.history import Kind, Operation, Outcome

#: A silence shorter than this is the pause between two sends, and no gap to show.
GAP_SHOWN_SECONDS_MIN = 0.5


class Span(NamedTuple):
    """A piece of a lane: a node's role from `begin` to `end`, seconds; of several `roles` the
    longest."""

    begin: float
    end: float
    role: str
    term: int
    roles: int = 1


class Recovery(NamedTuple):
    """One kind of fault: how long until its nodes were ready, and until the next ack."""

    kind: str
    times: int
    ready: Sequence[float]
    served: Sequence[float]


def acknowledged(history: Iterable[Operation]) -> list[float]:
    """When each append was acknowledged, in order of time."""
    return sorted(
        op.completed for op in history if op.kind is Kind.APPEND and op.outcome is Outcome.OK
    )


def throughput(history: Iterable[Operation], seconds: float, bin_seconds: float) -> list[float]:
    """Acknowledged appends per second, bin by bin."""
    counts = [0] * max(1, math.ceil(seconds / bin_seconds))
    for moment in acknowledged(history):
        counts[min(int(moment / bin_seconds), len(counts) - 1)] += 1
    return [count / bin_seconds for count in counts]


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the quantile by nearest rank; NaN if there are no values."""
    if not values:
        return math.nan
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, math.ceil(share * len(ranked)) - 1))]


def latency_quantiles(
    history: Iterable[Operation], seconds: float, bin_seconds: float, shares: Sequence[float]
) -> dict[float, list[float]]:
    """Share → latency of acknowledged appends in ms, by the bin in which they were sent."""
    bins: dict[int, list[float]] = defaultdict(list)
    for op in history:
        if op.kind is Kind.APPEND and op.outcome is Outcome.OK:
            bins[int(op.invoked / bin_seconds)].append((op.completed - op.invoked) * 1e3)
    places = range(max(1, math.ceil(seconds / bin_seconds)))
    return {share: [quantile(bins.get(at, ()), share) for at in places] for share in shares}


def gaps(history: Iterable[Operation], seconds: float) -> list[tuple[float, float]]:
    """Silences worth showing: from one acknowledgement to the next, or to the run's end."""
    moments = [0.0, *acknowledged(history), seconds]
    return [(a, b) for a, b in pairwise(moments) if b - a >= GAP_SHOWN_SECONDS_MIN]


def lanes(rows: Sequence[Mapping[str, Any]], silence_max: float = 1.6) -> dict[str, list[Span]]:
    """Node → its roles and terms over time; where it did not answer, there is a hole.

    `silence_max`: about three looks of the observer.
    """
    found: dict[str, list[Span]] = defaultdict(list)
    for row in rows:
        now, role, term = float(row["time"]), str(row["role"]), int(row["term"])
        spans = found[str(row["node"])]
        if spans and now - spans[-1].end <= silence_max:
            last = spans[-1]
            spans[-1] = last._replace(end=now)
            if (last.role, last.term) == (role, term):
                continue
        spans.append(Span(now, now, role, term))
    return dict(found)


def merged(spans: Iterable[Span], seconds: float) -> list[Span]:
    """Merges spans that lie within so many seconds, because they could not be told apart when
    drawn."""
    found: list[Span] = []
    longest = 0.0  # of those that the last one stands for
    for one in spans:
        last, own = found[-1] if found else None, one.end - one.begin
        if last is None or one.end - last.begin > seconds:
            found.append(one)
            longest = own
            continue
        role = one.role if own > longest else last.role
        longest = max(longest, own)
        found[-1] = Span(last.begin, one.end, role, one.term, last.roles + 1)
    return found


def committed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Node → (time, committed index)."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        found[str(row["node"])].append((float(row["time"]), float(row["committed"])))
    return dict(found)


def coverage(faults: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, tuple[int, int]]]:
    """Kind → target → (took effect, carried out); a target that was not there is no target met."""
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for row in faults:
        target = "random" if row.get("aim_missed") else str(row["target"])
        seen, count = found[str(row["kind"])].get(target, (0, 0))
        found[str(row["kind"])][target] = (seen + bool(row["took_effect"]), count + 1)
    return dict(found)


def recoveries(faults: Iterable[Mapping[str, Any]], history: Iterable[Operation]) -> list[Recovery]:
    """By kind: seconds until ready again, and the longest silence that touches the fault."""
    moments = acknowledged(history)
    ready: dict[str, list[float]] = defaultdict(list)
    served: dict[str, list[float]] = defaultdict(list)
    for row in faults:
        if row["began"] is None or row["ended"] is None:
            continue
        kind, began, ended = str(row["kind"]), float(row["began"]), float(row["ended"])
        ready[kind].append(float(row["recovery_seconds"]))
        near = moments[max(0, bisect_left(moments, began) - 1) : bisect_right(moments, ended) + 1]
        served[kind].append(max((b - a for a, b in pairwise(near)), default=math.nan))
    return [Recovery(kind, len(ready[kind]), ready[kind], served[kind]) for kind in sorted(ready)]
