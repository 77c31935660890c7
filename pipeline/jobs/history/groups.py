"""Positions of consumer groups, by columns: twin of `chaos.checkers.groups`.

Groups that nobody reset are judged at once, one sweep each; one that was reset on purpose is rare
and goes to the checker itself.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from chaos.checkers.groups import NO_OFFSET, find_group_disorder
from chaos.history import Kind, Operation, Outcome
from pipeline.jobs.history.columns import KINDS, OUTCOMES, Floats, Ints, LogColumns, QueueColumns

Names = Counter[str]
_KINDS = {number: Kind(word) for word, number in KINDS.items()}
_OUTCOMES = {number: Outcome(word) for word, number in OUTCOMES.items()}


def judge_groups(queue: QueueColumns, log: LogColumns) -> Names:
    """offset-ahead, offset-back, offset-lost."""
    told = queue.of(Kind.COMMIT, None) | queue.of(Kind.FETCH, None)
    if not told.any():
        return Names()
    end = int(log.offset[-1]) + 1 if len(log.offset) else 0
    sure = told & (queue.outcome == OUTCOMES["ok"])
    ahead = (queue.offset[sure] > end) | (
        _since(queue, log, queue.offset[sure]) > queue.completed[sure]
    )
    found = Names({"offset-ahead": int(ahead.sum())})
    seeks = queue.of(Kind.SEEK, None) & (queue.outcome != OUTCOMES["fail"])
    reset = np.unique(queue.process[seeks])
    rows = np.flatnonzero(told)
    for group in np.unique(queue.value[rows]):
        mine = rows[queue.value[rows] == group]
        if group in reset:
            found += _one_by_one(queue, np.flatnonzero(seeks & (queue.process == group)), mine)
        else:
            found += _sweep(queue, mine)
    return +found


def _since(queue: QueueColumns, log: LogColumns, ends: Ints) -> Floats:
    """The earliest time at which every place below each of `ends` can have been filled."""
    sends = np.flatnonzero(queue.of(Kind.APPEND, None))
    began = np.full(len(queue.names), -np.inf)
    began[queue.value[sends]] = queue.invoked[sends]
    times = np.concatenate(([-np.inf], np.maximum.accumulate(began[log.value])))
    return times[np.searchsorted(log.offset, ends, side="left")]


def _sweep(queue: QueueColumns, rows: Ints) -> Names:
    known = rows[queue.outcome[rows] == OUTCOMES["ok"]]
    by_end = known[np.argsort(queue.completed[known], kind="stable")]
    if not len(by_end):
        return Names()
    highest = np.concatenate(([NO_OFFSET - 1], np.maximum.accumulate(queue.offset[by_end])))
    fetches = known[queue.kind[known] == KINDS["fetch"]]
    passed = np.searchsorted(queue.completed[by_end], queue.invoked[fetches], side="left")
    back = queue.offset[fetches] < highest[passed]
    nothing = queue.offset[fetches] == NO_OFFSET
    return Names(
        {
            "offset-lost": int((back & nothing).sum()),
            "offset-back": int((back & ~nothing).sum()),
        }
    )


def _one_by_one(queue: QueueColumns, seeks: Ints, rows: Ints) -> Names:
    names = queue.names
    history = [
        Operation(
            names[int(queue.process[row])].as_py(),
            _KINDS[int(queue.kind[row])],
            names[int(queue.value[row])].as_py(),
            float(queue.invoked[row]),
            float(queue.completed[row]),
            _OUTCOMES[int(queue.outcome[row])],
            int(queue.offset[row]),
        )
        for row in np.sort(np.concatenate((seeks, rows)))
    ]
    end = int(queue.offset[rows].max()) + 1
    found = find_group_disorder(history, [(end, "")])  # what is ahead was counted already
    return Names(anomaly.name for anomaly in found if anomaly.name != "offset-ahead")
