"""Checks transactions: a half message is visible to no consumer before its group commits it; a
committed one to all.

    half ok ──┬─ commit ok ──────────► there: else `committed-lost`; and shown: else `never-read`
              ├─ commit, end unknown ► shown in time, since brokers ask: else `commit-stuck`
              ├─ commit when asked   ► the same; who never asks leaves no commit, but `due`
              ├─ rollback ───────────► never there: else `G1a`, an aborted read
              └─ nothing ────────────► never there: else `half-visible`
    half info ── commit ─────────────► there or not;   shown before any commit began: `half-visible`

All producers of a group give the same answer about a half. So a commit with an unknown end, or one
that could not be sent, is followed by further commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.deferred import Found, Shown, Times, never_shown
from chaos.history import Kind, Operation, Outcome


def judge_transactions(history: Sequence[Operation], seen: Shown, times: Times) -> Found:
    """Names: `half-visible`, `G1a`, `committed-lost`, `commit-stuck`, `never-read`. O(n)."""
    commits, rolled_back = _decisions(history)
    found: list[Anomaly] = []
    sent = arrived = unknown = 0
    for op in history:
        if op.kind is not Kind.HALF or op.outcome is Outcome.FAIL:
            continue
        sent += 1
        arrived += seen.has(op.value)
        of_half = commits.get(op.value, [])
        found += _too_visible(op, of_half, rolled_back, seen)
        if seen.may_be_deleted(op) or not (of_half or op.due >= 0):
            continue
        anomaly, is_open = _of_committed(op, of_half, seen, times)
        found += anomaly
        unknown += is_open
    return Found(tuple(found), sent, arrived, 0, unknown)


def _of_committed(
    op: Operation, commits: Sequence[Operation], seen: Shown, times: Times
) -> tuple[list[Anomaly], bool]:
    """Returns (anomalies of a half message that its group commits, True if it cannot be judged)."""
    at = seen.first.get(op.value)
    told = [one for one in commits if one.outcome is Outcome.OK]
    if told and at is None and seen.read and not seen.has(op.value):
        return [_lost(op, told[0])], False
    if (told and at is not None) or (not told and op.outcome is not Outcome.OK):
        return [], False
    latest = times.latest(min([one.invoked for one in commits], default=op.due))
    if at is None and (times.watched < latest or not seen.read):
        return [], True
    if told:
        return [never_shown(op, times)], False
    return ([_stuck(op, at, latest)] if at is None or at > latest else []), False


def _decisions(history: Iterable[Operation]) -> tuple[dict[str, list[Operation]], set[str]]:
    """Value → every attempt to commit it; values that were rolled back."""
    commits: dict[str, list[Operation]] = defaultdict(list)
    rolled_back = set()
    for op in history:
        if op.kind is Kind.HALF_COMMIT:
            commits[op.value].append(op)
        elif op.kind is Kind.HALF_ROLLBACK:
            rolled_back.add(op.value)
    return commits, rolled_back


def _too_visible(
    op: Operation, commits: Sequence[Operation], rolled_back: set[str], seen: Shown
) -> list[Anomaly]:
    at = seen.first.get(op.value)
    when = "is in a log" if at is None else f"was shown at {at:.6f} s"
    if not seen.has(op.value):
        return []
    said = f"{op.log}: the half {op.value} {when}"
    if op.value in rolled_back:
        return [Anomaly("G1a", f"{said}; its group rolled it back")]
    if not commits:
        return [Anomaly("half-visible", f"{said}; its group has decided nothing")]
    began = min(one.invoked for one in commits)
    if at is not None and at < began:
        return [Anomaly("half-visible", f"{said}; its first commit began at {began:.6f} s")]
    return []


def _lost(op: Operation, commit: Operation) -> Anomaly:
    said = f"{op.value}, whose commit was acknowledged at {commit.completed:.6f} s"
    return Anomaly("committed-lost", f"{op.log}: {said}, is in no log and was shown to nobody")


def _stuck(op: Operation, at: float | None, latest: float) -> Anomaly:
    came = "was shown to nobody" if at is None else f"came at {at:.6f} s"
    said = f"{op.value} {came}; its group would commit it, which was due until {latest:.6f} s"
    return Anomaly("commit-stuck", f"{op.log}: {said}")
