"""Delayed messages: never before their time, never lost, soon after it once all is well.

    send ok ───────── due ─────────────── latest: due, or healed, and seconds_max
              early │ during faults it may be late │ late │ not there: lost; there, but shown to
                                                     │ nobody: never-read

`due` counts from the send's beginning, so a reader who has it before knows that it is early. Which
clock decides: a leader's stamp begins the delay, a leader's clock ends it. While one is wrong a
message may come at any time, and what was sent then may be stamped wrong; it is counted as excused.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.deferred import Found, Shown, Times, never_shown
from chaos.history import Kind, Operation, Outcome


def judge_delayed(history: Iterable[Operation], seen: Shown, times: Times) -> Found:
    """Names: `delayed-early`, `delayed-late`, `delayed-lost`, `never-read`. O(n)."""
    found: list[Anomaly] = []
    sent = arrived = excused = unknown = 0
    for op in history:
        if op.kind is not Kind.DELAY or op.outcome is Outcome.FAIL:
            continue
        sent += 1
        arrived += seen.has(op.value)
        at = seen.first.get(op.value)
        if at is not None and at < op.due - times.early_max:
            if times.is_clock_sure(op.invoked, at):
                found.append(_early(op, at))
            else:
                excused += 1
        if op.outcome is not Outcome.OK or seen.may_be_deleted(op):
            continue
        latest = times.latest(op.due + op.completed - op.invoked)  # it was stamped in between
        if at is not None and at <= latest:
            continue
        if not times.is_clock_sure(op.invoked, op.completed):
            excused += 1
        elif at is not None:
            found.append(_late(op, at, latest))
        elif times.watched < latest:
            unknown += 1
        elif seen.has(op.value):
            found.append(never_shown(op, times))
        else:
            found.append(_lost(op))
    return Found(tuple(found), sent, arrived, excused, unknown)


def _early(op: Operation, at: float) -> Anomaly:
    said = f"{op.value} was shown at {at:.6f} s and was due at {op.due:.6f} s"
    return Anomaly("delayed-early", f"{op.log}: {said}")


def _late(op: Operation, at: float, latest: float) -> Anomaly:
    said = f"{op.value}, due at {op.due:.6f} s, was shown at {at:.6f} s, later than {latest:.6f} s"
    return Anomaly("delayed-late", f"{op.log}: {said}")


def _lost(op: Operation) -> Anomaly:
    said = f"{op.value} acknowledged to {op.process} at {op.completed:.6f} s, due at {op.due:.6f} s"
    return Anomaly("delayed-lost", f"{op.log}: {said}, is in no log and was shown to nobody")
