"""The checkers' rules over arrays: which names of anomalies a queue's history has, and how often.

Each function is the twin of one in `chaos.checkers`, named in its docstring, and says the same of
every history; there one operation is looked at after the other, here all at once. Sorting is
stable in both, so that operations that begin together are met in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from chaos.history import Kind, Outcome
from pipeline.jobs.history.columns import Floats, Ints, LogColumns, Mask, QueueColumns

Names = Counter[str]
_SPAN = 1 << 42  # above every offset, so that (process, offset) fits one number


def judge_log(queue: QueueColumns, log: LogColumns) -> Names:
    """Counts the contradictions with one replica's log: lost, doubled, strangers, order, reads."""
    found = Names()
    found += _lost(queue, log)
    found["duplicate"] += int((np.unique(log.value, return_counts=True)[1] - 1).sum())
    found += _strangers(queue, log)
    found += _real_time(queue, log)
    found += _reads_of_the_future(queue, log)
    return +found


def judge_sessions(queue: QueueColumns) -> Names:
    """Checks each process's own operations: `order.find_producer_disorder`,
    `find_backward_reads`.
    """
    found = Names()
    sent = np.flatnonzero(queue.of(Kind.APPEND))
    sent = sent[np.lexsort((queue.invoked[sent], queue.process[sent]))]
    same = queue.process[sent][1:] == queue.process[sent][:-1]
    back = queue.offset[sent][1:] <= queue.offset[sent][:-1]
    found["nonmonotonic-send"] = int((same & back).sum())
    shown = queue.of(Kind.APPEND) | queue.of(Kind.READ)
    if queue.in_memory is not None:
        shown &= ~queue.in_memory
    rows = np.flatnonzero(shown)
    rows = rows[np.lexsort((queue.invoked[rows], queue.process[rows]))]
    is_append = queue.of(Kind.APPEND)[rows]
    tail = queue.offset[rows] + is_append
    base = queue.process[rows] * _SPAN
    reached = np.maximum.accumulate(base + tail) if len(rows) else base
    before = np.concatenate(([-1], reached[:-1])) if len(rows) else base
    found["nonmonotonic-read"] = int((~is_append & (before >= base) & (base + tail < before)).sum())
    return +found


def judge_consumers(queue: QueueColumns, log: LogColumns, everything_read: bool) -> Names:
    """Checks the polls: `seen`, `consumers`."""
    found = _wrong_polls(queue, log) + _poll_order(queue, log)
    if everything_read:
        ok = _ok_polled(queue)
        got = queue.poll_offset[ok]
        reached = int(got.max()) if len(got) else -1
        unseen = (log.offset < reached) & ~np.isin(log.offset, got)
        found["never-read"] = int(unseen.sum())
    return +found


def inconsistent_offsets(queue: QueueColumns) -> Names:
    """Twin of `offsets.find_inconsistent_offsets`."""
    sent, ok = queue.of(Kind.APPEND), _ok_polled(queue)
    logs = queue.logs.values()
    offsets = [queue.offset[sent], queue.poll_offset[ok], *(log.offset for log in logs)]
    values = [queue.value[sent], queue.poll_value[ok], *(log.value for log in logs)]
    offset, value = np.concatenate(offsets), np.concatenate(values)
    order = np.lexsort((value, offset))
    offset, value = offset[order], value[order]
    two = (offset[1:] == offset[:-1]) & (value[1:] != value[:-1])
    return +Names({"inconsistent-offsets": len(np.unique(offset[1:][two]))})


def diverged(logs: Sequence[LogColumns]) -> Names:
    """Twin of `replicas.find_divergence`."""
    return +Names(diverged=sum(not logs[0].same(log) for log in logs[1:]))


# --- one log ----------------------------------------------------------------------------------


def _at(log: LogColumns, offset: Ints) -> tuple[Ints, Mask]:
    """Place in the log of each offset, and whether it is there. The last of equal ones counts."""
    place = np.searchsorted(log.offset, offset, side="right") - 1
    inside = place >= 0
    there = inside & (log.offset[np.maximum(place, 0)] == offset) if len(log.offset) else inside
    return place, there


def _lost(queue: QueueColumns, log: LogColumns) -> Names:
    """Twin of `lost.find_lost`."""
    rows = np.flatnonzero(queue.of(Kind.APPEND))
    offset, value = queue.offset[rows], queue.value[rows]
    place, there = _at(log, offset)
    kept = np.zeros(len(rows), dtype=bool)
    kept[there] = log.value[place[there]] == value[there]
    offset, value = offset[~kept], value[~kept]
    elsewhere = np.isin(value, log.value)
    first = int(log.offset[0]) if len(log.offset) else 0
    last = int(log.offset[-1]) if len(log.offset) else -1
    gone = offset[~elsewhere]
    prefix, postfix = gone < first, gone > last
    return Names(
        {
            "inconsistent-offsets": int(elsewhere.sum()),
            "lost-prefix": int(prefix.sum()),
            "lost-postfix": int((~prefix & postfix).sum()),
            "lost-middle": int((~prefix & ~postfix).sum()),
        }
    )


def _last_append(queue: QueueColumns, rows: Mask) -> Ints:
    """Row of the last append of each value among `rows`, -1 for none."""
    found = np.full(len(queue.names), -1, dtype=np.int64)
    places = np.flatnonzero(rows)
    found[queue.value[places]] = places  # of equal ones the last is kept
    return found


def _strangers(queue: QueueColumns, log: LogColumns) -> Names:
    """Twin of `doubled.find_strangers`."""
    sent = _last_append(queue, queue.of(Kind.APPEND, None))[log.value]
    refused = queue.of(Kind.APPEND, Outcome.FAIL)
    failed = (sent >= 0) & refused[np.maximum(sent, 0)] if len(queue) else sent >= 0
    return Names({"unexpected": int((sent < 0).sum()), "G1a": int(failed.sum())})


def _real_time(queue: QueueColumns, log: LogColumns) -> Names:
    """Twin of `order.find_real_time_violations`, first half: one sweep over begins and ends.

    Readers are shown later what was acknowledged in memory.
    """
    appends = queue.of(Kind.APPEND)
    ended = np.flatnonzero(appends | queue.of(Kind.READ))
    reached = queue.offset[ended] - ~appends[ended]
    by_end = np.argsort(queue.completed[ended], kind="stable")
    ends = queue.completed[ended][by_end]
    known = _highest(reached[by_end])
    unknown = _last_append(queue, queue.of(Kind.APPEND, Outcome.INFO))[log.value]
    late = unknown >= 0
    began = np.concatenate((queue.invoked[ended], queue.invoked[unknown[late]]))
    reach = np.concatenate((reached, log.offset[late]))
    is_append = np.concatenate((appends[ended], np.ones(int(late.sum()), dtype=bool)))
    finished = np.searchsorted(ends, began, side="left")
    then = known[finished]
    then = np.where(is_append, then, _shown(queue, ended, reached, began))
    wrong = (then >= 0) & ((reach < then) | (is_append & (reach == then)))
    return Names(
        {
            "G0-realtime": int((wrong & is_append).sum()),
            "stale-read": int((wrong & ~is_append).sum()),
        }
    )


def _shown(queue: QueueColumns, ended: Ints, reached: Ints, began: Floats) -> Ints:
    """Returns the queue length that readers must see at each of the times `began`: polls count,
    appends in memory do not."""
    polled = np.flatnonzero(_ok_polled(queue))
    rows = np.concatenate((ended, queue.poll_row[polled]))
    told = np.concatenate((reached, queue.poll_offset[polled]))
    if queue.in_memory is not None:
        told = np.where(queue.in_memory[rows], -1, told)
    by_end = np.argsort(queue.completed[rows], kind="stable")
    finished = np.searchsorted(queue.completed[rows][by_end], began, side="left")
    found: Ints = _highest(told[by_end])[finished]
    return found


def _highest(reached: Ints) -> Ints:
    """The highest of the first 0, 1, 2 … numbers, at least -1."""
    found: Ints = np.concatenate(([-1], np.maximum.accumulate(np.maximum(reached, -1))))
    return found


def _reads_of_the_future(queue: QueueColumns, log: LogColumns) -> Names:
    """Twin of `order._reads_of_the_future`."""
    rows = np.flatnonzero(queue.of(Kind.READ))
    value = queue.value[rows]
    asked = _last_append(queue, queue.of(Kind.APPEND, None))[value]
    early = asked < 0
    if len(queue):
        early = early | (queue.invoked[np.maximum(asked, 0)] > queue.completed[rows])
    early &= value != 0
    place = np.searchsorted(log.offset, queue.offset[rows], side="left") - 1
    last = np.zeros(len(rows), dtype=np.int64)
    last[place >= 0] = log.value[place[place >= 0]]
    gone = ~early & (last != value)
    return Names({"unexpected": int(early.sum()), "precommitted-read": int(gone.sum())})


# --- consumers --------------------------------------------------------------------------------


def _ok_polled(queue: QueueColumns) -> Mask:
    """Which of the polled pairs came in an answer that is certain."""
    found: Mask = queue.of(Kind.POLL)[queue.poll_row]
    return found


def _wrong_polls(queue: QueueColumns, log: LogColumns) -> Names:
    """Twin of `seen.find_wrong_polls`: each value once, for the first reason that is met."""
    ok = _ok_polled(queue)
    value, row = queue.poll_value[ok], queue.poll_row[ok]
    if not len(value):
        return Names()
    sent = _last_append(queue, queue.of(Kind.APPEND, None))[value]
    known = np.maximum(sent, 0)
    refused = queue.of(Kind.APPEND, Outcome.FAIL)
    early = (sent < 0) | (queue.invoked[known] > queue.completed[row])
    failed = ~early & refused[known]
    gone = ~early & ~failed & ~np.isin(value, log.value)
    kept = ~early & ~failed & ~gone
    elsewhere = kept & ~_holds(log, queue.poll_offset[ok], value)
    reason = np.select([early, failed, gone, elsewhere], [1, 2, 3, 4], 0)
    wrong = np.flatnonzero(reason)
    _, first = np.unique(value[wrong], return_index=True)
    told = reason[wrong[first]]
    names = ("unexpected", "G1a", "precommitted-read", "inconsistent-offsets")
    return Names({name: int((told == number).sum()) for number, name in enumerate(names, 1)})


def _holds(log: LogColumns, offset: Ints, value: Ints) -> Mask:
    """Which pairs of offset and value the log has; of an offset that stands twice, each."""
    pairs = np.stack((log.offset, log.value), axis=1)
    wanted = np.stack((offset, value), axis=1)
    _, number = np.unique(np.concatenate((pairs, wanted)), axis=0, return_inverse=True)
    number = number.reshape(-1)
    found: Mask = np.isin(number[len(pairs) :], number[: len(pairs)])
    return found


def _between(log: LogColumns, first: Ints, end: Ints) -> Ints:
    """How many messages the log holds at first..end - 1."""
    found: Ints = np.searchsorted(log.offset, end) - np.searchsorted(log.offset, first)
    return found


def _poll_order(queue: QueueColumns, log: LogColumns) -> Names:
    """Twin of `consumers.find_consumer_disorder`."""
    ok = _ok_polled(queue)
    row, offset = queue.poll_row[ok], queue.poll_offset[ok]
    first = np.full(len(queue), -1, dtype=np.int64)
    following = queue.offset.copy()  # where a seek goes; of polls: behind the highest they got
    if len(row):
        starts = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
        first[row[starts]] = offset[starts]
        following[row[starts]] = np.maximum.reduceat(offset, starts) + 1
    inside = row[1:] == row[:-1]
    backward = inside & (offset[1:] <= offset[:-1])
    skipped = inside & ~backward & (_between(log, offset[:-1] + 1, offset[1:]) > 0)
    polls = np.zeros(len(queue), dtype=bool)
    polls[row] = True
    steps = np.flatnonzero(polls | queue.of(Kind.SEEK))
    steps = steps[np.lexsort((queue.invoked[steps], queue.process[steps]))]
    wanted = queue.offset[steps].copy()
    if len(steps) > 1:
        same = queue.process[steps][1:] == queue.process[steps][:-1]
        wanted[1:][same] = following[steps][:-1][same]
    is_poll = polls[steps]
    got = first[steps]
    back = is_poll & (got < wanted)
    skip = is_poll & ~back & (_between(log, wanted, got) > 0)
    return Names(
        {
            "int-nonmonotonic-poll": int(backward.sum()),
            "int-poll-skip": int(skipped.sum()),
            "nonmonotonic-poll": int(back.sum()),
            "poll-skip": int(skip.sum()),
        }
    )
