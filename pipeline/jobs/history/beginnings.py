"""Logs that lost their beginning, by columns: twin of `chaos.checkers.beginnings`.

history   acknowledged below the beginning, else polled or read before the log's first
log       what was told of that ─┬─ what every replica still has
                                 first
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chaos.history import Kind
from pipeline.jobs.history.columns import Ints, LogColumns, QueueColumns


def with_deleted(queue: QueueColumns, begins: int) -> QueueColumns:
    """Returns every replica's log with the messages put back that were deleted before address
    `begins`, as the history tells them."""
    if not begins:
        return queue
    deleted = queue.of(Kind.APPEND)
    if queue.position is None:
        deleted = np.zeros(len(queue), dtype=bool)
    else:
        deleted &= (queue.position >= 0) & (queue.position < begins)
    # Of several operations with one offset the first in this order counts: the append that was
    # acknowledged last, then the read that was shown the offset first.
    sent = np.flatnonzero(deleted)[::-1]
    seen_offset, seen_value = _seen(queue)
    offset = np.concatenate((queue.offset[sent], seen_offset))
    value = np.concatenate((queue.value[sent], seen_value))
    offset, first_told = np.unique(offset, return_index=True)
    told = LogColumns(offset, value[first_told])
    last = int(queue.offset[sent].max(initial=-1))
    logs = {name: _put_back(told, log, last) for name, log in queue.logs.items()}
    return replace(queue, logs=logs)


def _put_back(told: LogColumns, log: LogColumns, last: int) -> LogColumns:
    first = int(log.offset[0]) if len(log.offset) else last + 1
    end = int(np.searchsorted(told.offset, first))
    return LogColumns(
        np.concatenate((told.offset[:end], log.offset)),
        np.concatenate((told.value[:end], log.value)),
    )


def _seen(queue: QueueColumns) -> tuple[Ints, Ints]:
    """(offset, value) that readers were shown, in the order of the history."""
    polled = queue.of(Kind.POLL)[queue.poll_row]
    reads = np.flatnonzero(queue.of(Kind.READ) & (queue.value != 0))
    row = np.concatenate((queue.poll_row[polled], reads))
    offset = np.concatenate((queue.poll_offset[polled], queue.offset[reads] - 1))
    value = np.concatenate((queue.poll_value[polled], queue.value[reads]))
    order = np.argsort(row, kind="stable")
    return offset[order], value[order]
