"""The job that judges a history in Parquet, one task per queue.

    each queue    ─► its kept and missing appends ─► appends that were taken back  (blackouts only)
    each queue    ─► rules over arrays ─► names and counts of anomalies ─► verdict

The rules look at one queue at a time, so queues are judged in parallel. One question needs all
queues together: which appends a blackout (power cut of a majority) was allowed to take back
(levels.py). Verdicts and anomalies have the names of `chaos.checkers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from chaos.checkers.levels import Blackout
from chaos.checkers.verdict import Word
from chaos.history import Kind
from pipeline.jobs.history import rules
from pipeline.jobs.history.beginnings import with_deleted
from pipeline.jobs.history.circumstances import Circumstances, read_circumstances
from pipeline.jobs.history.columns import SCHEMA, Ints, QueueColumns, queue_columns
from pipeline.jobs.history.files import queues_under
from pipeline.jobs.history.groups import judge_groups
from pipeline.jobs.history.levels import (
    EARLY_SCHEMA,
    Early,
    as_unknown,
    find_early,
    find_held,
    take_back,
)
from pipeline.jobs.workers import Here, Workers

LOST = ("lost-prefix", "lost-middle", "lost-postfix", "inconsistent-offsets")
DOUBLED = ("duplicate", "unexpected", "G1a")
REORDERED = (
    *("nonmonotonic-send", "nonmonotonic-read", "nonmonotonic-poll", "int-nonmonotonic-poll"),
    *("poll-skip", "int-poll-skip", "G0-realtime"),
)


class Queue(Protocol):
    """One queue, such as `files.QueueFiles`; the task that judges it reads its tables."""

    @property
    def log(self) -> str:
        """The queue's name in the history."""
        ...

    def operations(self, schema: pa.Schema = SCHEMA) -> pa.Table:
        """One row per operation, with the columns of `schema`, which are some of SCHEMA."""
        ...

    def logs(self) -> dict[str, pa.Table]:
        """Replica → table of LOG_SCHEMA."""
        ...


@dataclass(frozen=True, slots=True)
class QueueTask:
    """One queue to judge; `taken`: row numbers of its appends that were taken back, if any."""

    queue: Queue
    begins: int
    everything_read: bool
    taken: Ints | None


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """The verdict on one queue; `names`: name of an anomaly → how many there are.

    `acked` includes the appends that were taken back.
    """

    log: str
    operations: int
    acked: int
    names: Mapping[str, int]
    taken_back: int = 0


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """The verdict on all queues; counts under the names that every command prints."""

    word: Word
    operations: int
    acked: int
    names: Mapping[str, int]
    taken_back: int
    queues: tuple[QueueVerdict, ...] = field(repr=False)

    @property
    def lost(self) -> int:
        """How many anomalies have a name of LOST."""
        return sum(self.names.get(name, 0) for name in LOST)

    @property
    def doubled(self) -> int:
        """How many anomalies have a name of DOUBLED."""
        return sum(self.names.get(name, 0) for name in DOUBLED)

    @property
    def reordered(self) -> int:
        """How many anomalies have a name of REORDERED."""
        return sum(self.names.get(name, 0) for name in REORDERED)

    @property
    def others(self) -> int:
        """How many anomalies are neither lost, doubled nor reordered."""
        return sum(self.names.values()) - self.lost - self.doubled - self.reordered


def judge_queue(queue: QueueColumns, *, everything_read: bool = False) -> Counter[str]:
    """Apply every rule to one queue; returns name of an anomaly → count."""
    logs = [queue.logs[name] for name in sorted(queue.logs)]
    found = rules.judge_sessions(queue) + rules.inconsistent_offsets(queue)
    if logs:
        found += rules.diverged(logs)
        first = next(iter(queue.logs.values()))
        found += rules.judge_consumers(queue, first, everything_read) + judge_groups(queue, first)
    for number, log in enumerate(logs):
        if not any(log.same(other) for other in logs[:number]):
            found += rules.judge_log(queue, log)
    return found


def check(
    root: Path,
    *,
    acked_min: int = 1,
    everything_read: bool = False,
    workers: Workers | None = None,
) -> HistoryVerdict:
    """Judges the queues that `recorded` or `files` wrote under `root`. Raises CircumstancesError,
    OSError."""
    return judge_queues(
        queues_under(root),
        read_circumstances(root),
        acked_min=acked_min,
        everything_read=everything_read,
        workers=workers,
    )


def judge_queues(
    queues: Sequence[Queue],
    circumstances: Circumstances,
    *,
    acked_min: int = 1,
    everything_read: bool = False,
    workers: Workers | None = None,
) -> HistoryVerdict:
    """As `chaos.checkers.queues.judge_queues`, over tables; `queues`: all queues of the history."""
    workers = workers or Here()
    taken = _taken_back(queues, circumstances.blackouts, workers)
    tasks = [
        QueueTask(queue, circumstances.begins, everything_read, taken.get(queue.log))
        for queue in queues
    ]
    judged = tuple(workers.map(check_queue, tasks))
    names: Counter[str] = Counter()
    for queue in judged:
        names += Counter(queue.names)
    acked = sum(queue.acked for queue in judged)
    word = Word.INVALID if names else Word.VALID if acked >= acked_min else Word.UNKNOWN
    operations = sum(queue.operations for queue in judged)
    gone = sum(queue.taken_back for queue in judged)
    return HistoryVerdict(word, operations, acked, names, gone, judged)


def check_queue(task: QueueTask) -> QueueVerdict:
    """Judge one queue; runs in a worker."""
    queue = queue_columns(task.queue.operations(), task.queue.logs())
    taken = 0 if task.taken is None else len(task.taken)
    if task.taken is not None:
        queue = as_unknown(queue, task.taken)
    queue = with_deleted(queue, task.begins)
    names = judge_queue(queue, everything_read=task.everything_read)
    acked = int(queue.of(Kind.APPEND).sum()) + taken
    return QueueVerdict(task.queue.log, len(queue), acked, names, taken)


def _taken_back(
    queues: Sequence[Queue], blackouts: Sequence[Blackout], workers: Workers
) -> dict[str, Ints]:
    """Queue → row numbers of appends that were taken back.

    Reads no queue if there was no blackout, and no log of a queue in which all appends were
    acknowledged on disk.
    """
    if not blackouts:
        return {}
    said = list(workers.map(partial(_early, blackouts), queues))
    gone = tuple(value for one in said for value in one.value)
    if not gone:
        return {}
    held: set[str] = set().union(*workers.map(partial(_held, gone), queues))
    return take_back(
        {queue.log: one for queue, one in zip(queues, said, strict=True)}, held, blackouts
    )


def _early(blackouts: Sequence[Blackout], queue: Queue) -> Early:
    """`find_early` of one queue; runs in a worker."""
    return find_early(queue.operations(EARLY_SCHEMA), queue.logs, blackouts)


def _held(values: Sequence[str], queue: Queue) -> set[str]:
    """`find_held` of one queue; runs in a worker."""
    return find_held(values, queue.logs().values())
