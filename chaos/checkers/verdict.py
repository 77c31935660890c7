"""Every check over one run, and one word at the end; the worst wins (docs/spec/chaos.md 7)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from chaos.checkers.anomaly import Anomaly, Log
from chaos.checkers.doubled import find_doubled, find_strangers
from chaos.checkers.lost import find_lost
from chaos.checkers.order import (
    find_backward_reads,
    find_producer_disorder,
    find_real_time_violations,
)
from chaos.checkers.replicas import find_divergence
from chaos.history import Kind, Operation, Outcome

_LOST = (
    *("lost-prefix", "lost-middle", "lost-postfix", "inconsistent-offsets"),
    *("delayed-lost", "committed-lost"),
)
_DOUBLED = ("duplicate", "unexpected", "G1a")
_REORDERED = (
    *("nonmonotonic-send", "nonmonotonic-read", "nonmonotonic-poll", "int-nonmonotonic-poll"),
    *("poll-skip", "int-poll-skip", "G0-realtime"),
)


class Word(enum.Enum):
    """Value = exit code of a command that ends with it."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts under the names that every command prints (docs/decisions.md, "Names").

    `taken_back`: acknowledged in memory and lost as a power failure may (levels.py); no anomaly.
    """

    word: Word
    acked: int
    lost: int
    doubled: int
    reordered: int
    anomalies: tuple[Anomaly, ...]
    taken_back: int = 0

    @property
    def others(self) -> int:
        """Anomalies that are none of the three: silence, replicas that differ, rules of Raft."""
        return len(self.anomalies) - self.lost - self.doubled - self.reordered

    def counts(self) -> dict[str, int]:
        """Under the names that every command prints."""
        names = ("acked", "lost", "doubled", "reordered", "others")
        return {name: getattr(self, name) for name in names}


def judge(
    history: Sequence[Operation],
    logs: Mapping[str, Log],
    *,
    unfinished: Iterable[str] = (),
    acked_min: int = 1,
) -> Verdict:
    """Judge a history against the final log of every replica, each of which must tell the same.

    `unfinished`: values of appends that were under way at the end. With fewer than `acked_min`
    acknowledged appends the run proves nothing and the word is UNKNOWN.
    """
    open_values = tuple(unfinished)
    anomalies: list[Anomaly] = find_divergence(logs)
    for log in _different(logs):
        anomalies += find_lost(history, log)
        anomalies += find_doubled(log)
        anomalies += find_strangers(history, log, unfinished=open_values)
        anomalies += find_real_time_violations(history, log)
    anomalies += find_producer_disorder(history)
    anomalies += find_backward_reads(history)
    anomalies = list(dict.fromkeys(anomalies))
    acked = sum(op.kind is Kind.APPEND and op.outcome is Outcome.OK for op in history)
    word = Word.INVALID if anomalies else Word.VALID if acked >= acked_min else Word.UNKNOWN
    return count(word, acked, anomalies)


def some_of_each(anomalies: Iterable[Anomaly], most: int) -> list[Anomaly]:
    """At most so many, one of each name before the second of any: no kind hides behind another."""
    by_name: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies:
        by_name.setdefault(anomaly.name, []).append(anomaly)
    rounds = zip_longest(*by_name.values())
    return [one for turn in rounds for one in turn if one is not None][:most]


def count(word: Word, acked: int, anomalies: Sequence[Anomaly]) -> Verdict:
    """A verdict with its anomalies sorted into lost, doubled, reordered and others."""
    lost, doubled, reordered = (
        sum(a.name in names for a in anomalies) for names in (_LOST, _DOUBLED, _REORDERED)
    )
    return Verdict(word, acked, lost, doubled, reordered, tuple(anomalies))


def _different(logs: Mapping[str, Log]) -> list[Log]:
    """Each log once: equal replicas need not be judged twice."""
    found: list[Log] = []
    for name in sorted(logs):
        if all(list(logs[name]) != list(log) for log in found):
            found.append(logs[name])
    return found
