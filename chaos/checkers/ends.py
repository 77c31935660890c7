"""Was every message shown to a reader, to the end of every queue?

Source: docs/spec/chaos.md 2.2, `never-read`.

    log          0 … 7   8 9        shown 0 … 7; the reader was told at the end: nothing at 8
                 shown   never-read (acknowledged before it asked), or else nobody can tell

`seen.find_unseen` judges what readers passed by; this judges what lies behind the last that any of
them got. A reader that came to the end leaves a poll without messages at the place where it was
told that nothing follows. Without one nobody can tell: it is counted, not flagged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Level, Operation, Outcome


class Ends(NamedTuple):
    """`open`: acknowledged messages behind the last one that consumers got, which cannot be
    judged.
    """

    anomalies: list[Anomaly]
    open: int


def find_unseen_ends(history: Sequence[Operation], log: Log) -> Ends:
    """Judges the end of one queue. Only messages acknowledged on disk were promised to readers."""
    polls = [op for op in history if op.kind is Kind.POLL and op.outcome is Outcome.OK]
    shown = max((offset for op in polls for offset, _ in op.values), default=-1)
    told = [op for op in polls if not op.values]
    promised = {op.value: op for op in history if _is_promised(op)}
    anomalies, nobody_knows = [], 0
    for offset, value in log:
        append = promised.get(value)
        if offset <= shown or append is None:
            continue
        end = _who_missed(told, offset, append)
        if end is None:
            nobody_knows += 1
            continue
        said = f"{value} at {offset} was acknowledged at {append.completed:.6f} s"
        when = f"{end.process} was told at {end.completed:.6f} s that nothing follows {end.offset}"
        anomalies.append(Anomaly("never-read", f"{said}; {when}"))
    return Ends(anomalies, nobody_knows)


def _is_promised(op: Operation) -> bool:
    acked = op.kind is Kind.APPEND and op.outcome is Outcome.OK
    return acked and op.level is not Level.IN_MEMORY


def _who_missed(told: Iterable[Operation], offset: int, append: Operation) -> Operation | None:
    """Returns a poll that began after the message was acknowledged, at or before its offset, and
    got no message; None if there is none."""
    late = (op for op in told if op.offset <= offset and op.invoked > append.completed)
    return next(late, None)
