"""Finds appends that a power failure was allowed to take back: `chaos.checkers.levels.take_back`
over columns.

    queue ─► Early: proofs of its kept appends per blackout; appends in memory that are missing ─┐
    queue ─► which of all missing appends its logs hold ─────────────────────────────────────────┤
                                                                 rows of each queue ◄── take_back

An append *in memory* was acknowledged before a sync. All queues share one log, so a kept append of
one queue proves that earlier appends of all queues had been synced. Each queue adds two numbers per
blackout and its missing appends, so the memory needed grows only with the missing appends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.checkers.levels import UNSYNCED_SECONDS_MAX, Blackout
from chaos.history import Kind, Level, Outcome
from pipeline.jobs.history.columns import (
    OUTCOMES,
    SCHEMA,
    Floats,
    Ints,
    Mask,
    QueueColumns,
    floats,
    ints,
)

#: The columns that `find_early` reads; without polled values and processes, most of the bytes.
EARLY_SCHEMA = pa.schema(
    [
        SCHEMA.field(name)
        for name in ("kind", "value", "invoked", "completed", "outcome", "offset", "level")
    ]
)


@dataclass(frozen=True, slots=True)
class Early:
    """Facts of one queue's appends.

    `known_since`, `ends`: for each blackout, the latest invocation and the highest offset of kept
    appends that were acknowledged before it. The other fields are columns of the appends in memory
    that the queue's logs lack; `row` is the row in the history.
    """

    known_since: Floats
    ends: Ints
    row: Ints
    value: tuple[str, ...]
    invoked: Floats
    completed: Floats
    offset: Ints


def find_early(
    history: pa.Table, logs: Callable[[], Mapping[str, pa.Table]], blackouts: Sequence[Blackout]
) -> Early:
    """The facts from a queue's table of EARLY_SCHEMA and its logs, one of LOG_SCHEMA per replica.

    It calls `logs` only for a queue that has appends in memory.
    """
    ok = _equal(history, "outcome", Outcome.OK.value)
    kept = ok & _equal(history, "kind", Kind.APPEND.value)
    row = np.flatnonzero(ok & _equal(history, "level", Level.IN_MEMORY.value))
    value = history.column("value").take(pa.array(row))
    gone = ~_held(value, logs().values()) if len(row) else np.zeros(0, dtype=bool)
    row, value = row[gone], value.filter(pa.array(gone))
    kept[row] = False
    invoked, completed = floats(history.column("invoked")), floats(history.column("completed"))
    offset = ints(history.column("offset"))
    known_since, ends = _proved(invoked[kept], completed[kept], offset[kept], blackouts)
    values = tuple(value.to_pylist())
    return Early(known_since, ends, row, values, invoked[row], completed[row], offset[row])


def find_held(values: Sequence[str], logs: Iterable[pa.Table]) -> set[str]:
    """Which of `values` the logs of one queue hold; such a value is misplaced, but not gone."""
    wanted, found = pa.array(values, pa.string()), set()
    for log in logs:
        column = log.column("value")
        found.update(column.filter(pc.is_in(column, value_set=wanted)).to_pylist())
    return found


def take_back(
    queues: Mapping[str, Early], held: Collection[str], blackouts: Sequence[Blackout]
) -> dict[str, Ints]:
    """Queue → rows of appends that a blackout was allowed to take back; only queues with some.

    `held`: all values that `find_held` found, in any queue.
    """
    stays = {
        log: np.array([value in held for value in one.value], dtype=bool)
        for log, one in queues.items()
    }
    queues = {log: _also_kept(one, stays[log], blackouts) for log, one in queues.items()}
    known_since = np.max([one.known_since for one in queues.values()], axis=0, initial=-np.inf)
    rows = {
        log: one.row[~stays[log] & _taken(one, known_since, blackouts)]
        for log, one in queues.items()
    }
    return {log: taken for log, taken in rows.items() if len(taken)}


def as_unknown(queue: QueueColumns, rows: Ints) -> QueueColumns:
    """The queue with the outcome of `rows` unknown, as `take_back` of the checkers leaves it."""
    outcome, completed, offset = queue.outcome.copy(), queue.completed.copy(), queue.offset.copy()
    outcome[rows] = OUTCOMES[Outcome.INFO.value]
    completed[rows] = np.inf
    offset[rows] = -1
    in_memory = None if queue.in_memory is None else queue.in_memory.copy()
    if in_memory is not None:
        in_memory[rows] = False
    return replace(queue, outcome=outcome, completed=completed, offset=offset, in_memory=in_memory)


def _equal(table: pa.Table, name: str, word: str) -> Mask:
    found = pc.fill_null(pc.equal(table.column(name), word), False)
    made: Mask = found.to_numpy().astype(bool)
    return made


def _held(value: Any, logs: Iterable[pa.Table]) -> Mask:
    held = np.zeros(len(value), dtype=bool)
    for log in logs:
        found = pc.is_in(value, value_set=log.column("value").combine_chunks())
        held |= found.to_numpy().astype(bool)
    return held


def _proved(
    invoked: Floats, completed: Floats, offset: Ints, blackouts: Sequence[Blackout]
) -> tuple[Floats, Ints]:
    """(latest invocation, highest offset) of kept appends acknowledged before each blackout.

    Appends before those had been synced by then.
    """
    known_since = np.full(len(blackouts), -np.inf)
    ends = np.full(len(blackouts), -1, dtype=np.int64)
    for number, cut in enumerate(blackouts):
        before = completed <= cut.began
        known_since[number] = invoked[before].max(initial=-np.inf)
        ends[number] = offset[before].max(initial=-1)
    return known_since, ends


def _also_kept(one: Early, stays: Mask, blackouts: Sequence[Blackout]) -> Early:
    since, ends = _proved(one.invoked[stays], one.completed[stays], one.offset[stays], blackouts)
    return replace(
        one, known_since=np.maximum(one.known_since, since), ends=np.maximum(one.ends, ends)
    )


def _taken(one: Early, known_since: Floats, blackouts: Sequence[Blackout]) -> Mask:
    found = np.zeros(len(one.row), dtype=bool)
    for number, cut in enumerate(blackouts):
        since = max(float(known_since[number]), cut.began - UNSYNCED_SECONDS_MAX)
        found |= (
            (one.invoked <= cut.ended) & (one.completed >= since) & (one.offset > one.ends[number])
        )
    return found
