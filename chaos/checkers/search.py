"""A second judge: is there an order of effects that explains everything? (Wing and Gong 1993)

The sweep of `order.py` trusts that an acknowledgement tells the order. This one trusts nothing: it
tries orders, one operation after the other, and goes back when it is stuck.

    candidates   not yet ordered, and began before every other unordered one has ended
    state        (next free offset, last value)        of the model of a log:
      append → o     legal when o ≥ next; then (o + 1, value)
      read → (t, v)  legal when t ≥ next and v is the last value; then (t, v)

States that were reached with the same set of ordered operations are remembered (Lowe 2017), so a
dead end is walked into once. An append whose outcome is unknown is placed with the help of the
final log (docs/spec/chaos.md 2.2): absent, it never happened; present, it has that offset and no
end. The final log itself is one more operation, behind all others.

An append that was acknowledged in memory has its place from then on, but a reader may see it later:
it has no end among reads, and its own among appends.

Exponential in the worst case: for histories of some dozen operations, where it cross-checks the
sweep. It shares no code with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chaos.checkers.anomaly import Log
from chaos.history import INFINITY, Kind, Level, Operation, Outcome

OPERATIONS_MAX = 64  # the set of ordered operations is one machine word; more take too long anyway


class _Step(NamedTuple):
    begin: float
    end: float
    append: bool
    offset: int
    value: str
    in_memory: bool = False


class _State(NamedTuple):
    """How the model stands: the next free offset, the last value ("" for none)."""

    next: int
    last: str


def is_linearizable(history: Sequence[Operation], log: Log) -> bool:
    """Can appends and reads of one log be ordered so that all answers and `log` are right?

    Raises ValueError for more than OPERATIONS_MAX appends and reads.
    """
    steps = _steps(history, log)
    if steps is None:
        return False
    if len(steps) > OPERATIONS_MAX:
        raise ValueError(
            f"{len(steps)} operations are too many to search; check parts of at most "
            f"{OPERATIONS_MAX}, or use the sweep"
        )
    appends = [step for step in steps if step.append]
    seen = [step._replace(end=INFINITY) if step.in_memory else step for step in steps]
    return _search(seen) and (seen == steps or _search(appends))


def _steps(history: Sequence[Operation], log: Log) -> list[_Step] | None:
    """Returns the operations to be ordered; None if the final log alone contradicts the answers."""
    place: dict[str, int] = {}
    for offset, value in log:
        if value in place:
            return None
        place[value] = offset
    sent: set[str] = set()
    steps = []
    for op in history:
        if op.kind is Kind.READ and op.outcome is Outcome.OK:
            steps.append(_Step(op.invoked, op.completed, False, op.offset, op.value))
        elif op.kind is Kind.APPEND:
            sent.add(op.value)
            held = place.get(op.value)
            if op.outcome is Outcome.OK:
                if held != op.offset:
                    return None
                early = op.level is Level.IN_MEMORY
                steps.append(_Step(op.invoked, op.completed, True, op.offset, op.value, early))
            elif held is not None:
                if op.outcome is Outcome.FAIL:
                    return None
                steps.append(_Step(op.invoked, INFINITY, True, held, op.value))
    return steps if set(place) <= sent else None


def _search(steps: list[_Step]) -> bool:
    """Depth first over (set of ordered steps, state); all of them ordered is success."""
    everything = (1 << len(steps)) - 1
    stack = [(0, _State(0, ""))]
    seen = set(stack)
    while stack:
        done, state = stack.pop()
        if done == everything:
            return True
        first_end = min(step.end for at, step in enumerate(steps) if not done >> at & 1)
        for at, step in enumerate(steps):
            if done >> at & 1 or step.begin > first_end:
                continue
            after = _apply(state, step)
            if after is None:
                continue
            reached = (done | 1 << at, after)
            if reached not in seen:
                seen.add(reached)
                stack.append(reached)
    return False


def _apply(state: _State, step: _Step) -> _State | None:
    """The state after `step`; None when it is not legal."""
    if step.offset < state.next:
        return None
    if step.append:
        return _State(step.offset + 1, step.value)
    return _State(step.offset, state.last) if step.value == state.last else None
