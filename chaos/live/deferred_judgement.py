"""Delayed messages and transactions of a run, judged; a part of judgement.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.deferred import Found, Span, Times, shown
from chaos.checkers.delayed import judge_delayed
from chaos.checkers.queues import Replica
from chaos.checkers.transactions import judge_transactions
from chaos.history import Operation
from chaos.live.nemesis import Happened
from dledger.runtime.group_clock import ALLOWANCE_MS

#: From due, or from the last heal, until readers are shown it. A broker asks every 2 s about a
#: transaction, and a client tells of itself every 2 s where it is connected anew.
ARRIVE_SECONDS_MAX = 15.0
#: A clock is wrong from a little before the fault is seen until a little behind its end.
CLOCK_MARGIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DeferredJudgement:
    """Part of a judgement: `reasons` why its word is unknown, `summary` more of its counts."""

    anomalies: tuple[Anomaly, ...]
    reasons: tuple[str, ...]
    summary: dict[str, Any]


def judge_deferred(
    history: Sequence[Operation],
    replicas: Mapping[str, Replica],
    happened: Sequence[Happened],
    *,
    begins: int,
    healed: float,
    watched: float,
) -> DeferredJudgement:
    """Judges delayed and transactional messages. Times are seconds of the run, as in `Times`."""
    seen = shown(history, replicas.values(), begins)
    times = Times(healed, watched, ARRIVE_SECONDS_MAX, clocks=wrong_clocks(happened, len(replicas)))
    found = {
        "delayed": judge_delayed(history, seen, times),
        "transactional": judge_transactions(history, seen, times),
    }
    return DeferredJudgement(
        tuple(anomaly for one in found.values() for anomaly in one.anomalies),
        tuple(
            f"{one.open} {name} messages had not come, and nobody watched until they had to"
            for name, one in found.items()
            if one.open
        ),
        {"watched_seconds": watched} | {name: _counts(one) for name, one in found.items()},
    )


def wrong_clocks(happened: Sequence[Happened], nodes: int) -> list[Span]:
    """When a node's clock, or the log's, may have been wrong, in seconds of the run.

    Store time never goes back (R24): what a leader stamped whose clock was ahead holds, for all
    later leaders, until real time is there. One such clock among three is bounded by the others.
    """
    wrong = [
        (
            Span(one.began - CLOCK_MARGIN_SECONDS, one.ended + one.recovery + CLOCK_MARGIN_SECONDS),
            one,
        )
        for one in happened
        if one.planned.kind == "clock" and one.began is not None and one.ended is not None
    ]
    return [
        Span(
            span.began,
            span.ended
            + _ahead(
                one,
                bounded=nodes >= 3 and len(one.nodes) == 1 and _is_only_wrong_clock(span, wrong),
            ),
        )
        for span, one in wrong
    ]


def _is_only_wrong_clock(span: Span, wrong: Sequence[tuple[Span, Happened]]) -> bool:
    """True if no other clock is wrong meanwhile."""
    return sum(other.began <= span.ended and span.began <= other.ended for other, _ in wrong) == 1


def _ahead(clock: Happened, *, bounded: bool) -> float:
    """Seconds by which its wall clock was ahead (chaos/drivers/hooks.py), as far as that counts."""
    ahead = max(0.0, float(str(clock.notes.get("wall_ms", 0))) / 1000)
    return min(ahead, ALLOWANCE_MS / 1000) if bounded else ahead


def _counts(found: Found) -> dict[str, int]:
    return {name: n for name, n in asdict(found).items() if isinstance(n, int)}
