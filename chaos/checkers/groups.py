"""Positions of consumer groups: never back, never ahead of the log, never forgotten.

    commit 5 (ok) ─► fetch → 5 or what was committed later     else offset-back
                  ─► fetch → nothing (-1)                      offset-lost
    commit 9 when only 7 messages had been sent                offset-ahead

A commit whose outcome is unknown may show, or not, from its beginning on. A group that is reset on
purpose has a `seek` of process `<group>`: from its beginning on only what came after it counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome

NO_OFFSET = -1  # what a fetch is answered when the group has no position


class _Sent:
    """The earliest time at which a queue can have had a certain length.

    place      0      1      2      3
    sent at    1.0    4.0    2.0    5.0       since(3) = 4.0: three messages stand there only when
                                              the last of them to be sent had been sent

    `end`: the first place that is not filled.
    """

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


def find_group_disorder(history: Sequence[Operation], log: Log) -> list[Anomaly]:
    """Commits and fetches of one queue that contradict each other or the log. O(n log n)."""
    groups: dict[str, list[Operation]] = defaultdict(list)
    for op in history:
        if op.kind in (Kind.COMMIT, Kind.FETCH):
            groups[op.value].append(op)
        elif op.kind is Kind.SEEK and op.outcome is not Outcome.FAIL:
            groups[op.process].append(op)
    found: list[Anomaly] = []
    sent = _Sent(history, log)
    for group, operations in groups.items():
        found += _ahead(group, operations, sent)
        found += _back(group, operations)
    return found


def _ahead(group: str, operations: Iterable[Operation], sent: _Sent) -> list[Anomaly]:
    """A position lies at most behind the last message that had been sent by then."""
    return [
        Anomaly(
            "offset-ahead",
            f"{op.kind.value} of group {group} at {op.invoked:.6f} s: position {op.offset}, "
            + (
                f"but the log ends at {sent.end}"
                if op.offset > sent.end
                else f"but what stands below was sent until {sent.since(op.offset):.6f} s"
            ),
        )
        for op in operations
        if op.kind is not Kind.SEEK
        and op.outcome is Outcome.OK
        and (op.offset > sent.end or sent.since(op.offset) > op.completed)
    ]


def _back(group: str, operations: list[Operation]) -> list[Anomaly]:
    """Finds fetches that returned a position lower than one acknowledged before they began."""
    known = sorted(
        (op for op in operations if op.outcome is Outcome.OK and op.kind is not Kind.SEEK),
        key=lambda op: op.completed,
    )
    resets = sorted(op.invoked for op in operations if op.kind is Kind.SEEK)
    found = []
    highest: Operation | None = None
    passed = 0
    since = float("-inf")
    for op in sorted(operations, key=lambda op: op.invoked):
        if op.kind is not Kind.FETCH or op.outcome is not Outcome.OK:
            continue
        reset = max((at for at in resets if at <= op.completed), default=since)
        if reset > since:
            since, highest = reset, None
        while passed < len(known) and known[passed].completed < op.invoked:
            other = known[passed]
            if other.invoked > since and (highest is None or other.offset > highest.offset):
                highest = other
            passed += 1
        if highest is None or op.offset >= highest.offset:
            continue
        name = "offset-lost" if op.offset == NO_OFFSET else "offset-back"
        found.append(
            Anomaly(
                name,
                f"group {group} had {highest.offset} at {highest.completed:.6f} s and was told "
                f"{op.offset} at {op.invoked:.6f} s",
            )
        )
    return found
